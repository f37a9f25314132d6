"""Text of symbol files."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import cplusplus_text as cplusplus_text
    from . import cplusplus_tree as cplusplus_tree
    from . import function_lines as function_lines
    from . import inline_order as inline_order
    from . import rust_names as rust_names
    from . import stack_cfi as stack_cfi
    from . import symbol_lines as symbol_lines
