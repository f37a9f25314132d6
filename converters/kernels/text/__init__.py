"""Text of many rows at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import join as join
    from . import printf as printf
    from . import writer as writer
