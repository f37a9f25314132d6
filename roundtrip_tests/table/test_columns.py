"""Columns: what a declaration adds to its class, and the consistency of declarations."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from unwindkit.converters.columns import Column, Columns, column_of, columns
from unwindkit.converters.table.model import ROW_VALUES, Function, FunctionColumns, Row, RowColumns
from unwindkit.schemas import cfi
from unwindkit.schemas.pointers import DW_EH_PE

if TYPE_CHECKING:
    from numpy.typing import NDArray


@columns
class Places(Columns):
    """Some places."""

    start: NDArray[np.uint64] = column_of("address", "of the first byte")
    kind: NDArray[np.uint8] = column_of(DW_EH_PE, fill=DW_EH_PE.omit)
    digest: NDArray[np.uint8] = column_of("bytes", items=2)
    is_new: NDArray[np.bool_] = column_of(meaning="whether it was added")


def places(*starts: int) -> Places:
    """Places whose other values follow from their starts."""
    return Places.of_records(
        [{"start": one, "kind": one % 4, "digest": (one, one + 1), "is_new": one > 2} for one in starts]
    )


def records(found: Places) -> list[dict[str, object]]:
    return [found.record(index) for index in range(len(found))]


def test_a_declaration_has_dtype_unit_and_meaning() -> None:
    assert Places.declared == (
        Column("start", np.dtype(np.uint64), "address", "of the first byte", 0, 0),
        Column("kind", np.dtype(np.uint8), "`DW_EH_PE`", "", 0, 0xFF, DW_EH_PE),
        Column("digest", np.dtype(np.uint8), "bytes", "", 2, 0),
        Column("is_new", np.dtype(np.bool_), "", "whether it was added", 0, 0),
    )
    assert "start (uint64): address of the first byte" in str(Places.__doc__)


def test_records_as_columns_and_back() -> None:
    found = places(1, 4)
    assert len(found) == 2
    assert found.start.dtype == np.uint64
    assert found.digest.tolist() == [[1, 2], [4, 5]]
    assert records(found) == [
        {"start": 1, "kind": 1, "digest": [1, 2], "is_new": False},
        {"start": 4, "kind": 0, "digest": [4, 5], "is_new": True},
    ]
    assert places().digest.shape == (0, 2)


def test_select_takes_indices_a_mask_or_a_slice() -> None:
    found = places(1, 2, 3)
    assert records(found.select(np.array([2, 0]))) == records(places(3, 1))
    assert records(found.select(np.array([False, True, False]))) == records(places(2))
    assert records(found.select(slice(1, None))) == records(places(2, 3))


def test_concatenate_insert_put_and_resize() -> None:
    assert records(Places.concatenate([places(1), places(), places(2, 3)])) == records(places(1, 2, 3))
    assert records(places(1, 3).insert(np.array([0, 1]), places(9, 2))) == records(places(9, 1, 2, 3))
    found = places(1, 2, 3)
    found.put(np.array([2, 0]), places(7, 8))
    assert records(found) == records(places(8, 2, 7))
    larger = found.resized(5)
    assert len(larger) == 5
    assert records(larger.select(slice(3))) == records(found)


def test_defaults_are_0_or_what_the_declaration_says() -> None:
    assert records(Places.defaults(1)) == [{"start": 0, "kind": 0xFF, "digest": [0, 0], "is_new": False}]
    given = Places.defaults(2, start=np.array([5, 6], np.uint64))
    assert (given.start.tolist(), given.kind.tolist()) == ([5, 6], [0xFF, 0xFF])
    for wrong in ({"start": np.zeros(2, np.int64)}, {"start": np.zeros(3, np.uint64)}, {"end": np.zeros(2, np.uint64)}):
        with pytest.raises(TypeError):
            Places.defaults(2, **wrong)
    assert [one.dtype for one in Places.empty(3).arrays()] == [one.dtype for one in Places.declared]


def test_what_is_no_column_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TypeError, match=r"names: list\[str\] is not a column"):

        @columns
        class Names(Columns):
            """Not columns."""

            names: list[str] = column_of()


def test_functions_and_rows_as_objects_have_the_names_and_defaults_of_their_columns() -> None:
    as_object = {one.name: one.default for one in fields(Function) if one.name not in ("start", "size", "rows")}
    as_columns = {one.name: one.fill for one in FunctionColumns.declared if one.name not in ("start", "size", "run")}
    assert as_object == as_columns
    assert set(ROW_VALUES) == {one.name for one in RowColumns.declared if one.name in Row.__dataclass_fields__} - {
        "offset",
        "ra_state",
    }


def test_values_that_instructions_set_are_columns_of_64_bits() -> None:
    """Kernels treat them as signed 64-bit numbers, viewed as the column's type; each has a separate effect."""
    declared = {one.name: one for one in RowColumns.declared}
    assert set(cfi.ROW_VALUES.values()) <= set(ROW_VALUES)
    assert {declared[name].dtype.itemsize for name in cfi.ROW_VALUES.values()} == {8}
    effects = [cfi.INSTRUCTIONS[opcode].effect for opcode in cfi.ROW_VALUES]
    assert len(set(effects)) == len(effects)
    assert all(cfi.INSTRUCTIONS[opcode].operands == (cfi.Operand.SIZE,) for opcode in cfi.ROW_VALUES)


def test_columns_change_by_replacing() -> None:
    found = places(1, 2)
    assert replace(found, start=found.start + np.uint64(1)).start.tolist() == [2, 3]
    with pytest.raises(AttributeError):
        found.start = found.start  # frozen
