"""Other sections of DWARF."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import contributions as contributions
    from . import macros as macros
    from . import unit_roots as unit_roots
