"""Loops and types that several formats use."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import numbering as numbering
    from . import reads as reads
    from . import rows as rows
    from . import values as values
    from . import writes as writes
