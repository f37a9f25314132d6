"""Loops of a program that is run by single steps."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as attributes of the engine (../engine.py)
    from . import frames as frames
    from . import steps as steps
