"""Frame row entries."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import find_fre as find_fre
    from . import fres as fres
    from . import merge_fdes as merge_fdes
    from . import pieces as pieces
    from . import project as project
    from . import share_blocks as share_blocks
