"""Text of symbol files."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import stack_cfi as stack_cfi
    from . import symbol_lines as symbol_lines
