"""Other sections of DWARF."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import abbreviations as abbreviations
    from . import contributions as contributions
    from . import entries as entries
    from . import entry_ranges as entry_ranges
    from . import macros as macros
    from . import range_lists as range_lists
    from . import unit_roots as unit_roots
