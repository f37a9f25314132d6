"""Line number programs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import decoder as decoder
    from . import encoder as encoder
    from . import machine as machine
    from . import path_tables as path_tables
