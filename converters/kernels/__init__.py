"""The loops over the variable streams, in folders by format: compiled where there is a C compiler, else run as is.

Strategy: `cfi/interpreter.py` is an ordinary module; Cython compiles it, in pure-Python mode, into `_interpreter`
beside it, so both are there to be compared. Callers write `engine.cfi.interpreter.Interpreter(...)` (see engine.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVarTuple, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = TypeVarTuple("Columns")


def views(*columns: *Columns) -> tuple[*Columns]:
    """Columns (NumPy arrays) as kernels take them: indexing a memoryview gives Python's integers, which do not wrap.

    For type checkers a view has the type of its array, so that they know the number and types of a call's arguments."""
    arrays: tuple[NDArray[Any], ...] = cast("Any", columns)
    return cast("tuple[*Columns]", tuple(array.data for array in arrays))
