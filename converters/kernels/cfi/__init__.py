"""Call frame information: entries, and instructions to row runs and back."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import decoder as decoder
    from . import entries as entries
    from . import frame_text as frame_text
    from . import instruction_writer as instruction_writer
    from . import interpreter as interpreter
    from . import operands as operands
    from . import records as records
    from . import row_state as row_state
    from . import row_writer as row_writer
