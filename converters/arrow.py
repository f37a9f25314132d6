"""Columns as Arrow arrays, for `Columns.to_arrow` and the shards of `unwindkit export`.

Strategy: numbers are not copied. Members of an enumeration become their names, as a dictionary; flags stay numbers.
Unit and meaning are metadata of the field. pyarrow is an optional dependency, and is imported only here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .column import Column


def arrow_library() -> Any:
    """The module pyarrow. Raises ImportError, with the way to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Arrow data requires pyarrow: pip install 'unwindkit[data]'", name="pyarrow") from error
    return pyarrow


def arrow_table(columns: Iterable[tuple[Column, NDArray[Any]]]) -> Any:
    """Declared columns of one length as a `pyarrow.Table`."""
    arrow = arrow_library()
    found = [(arrow_field(column), arrow_array(column, values)) for column, values in columns]
    return arrow.Table.from_arrays([array for _, array in found], schema=arrow.schema([field for field, _ in found]))


def arrow_field(column: Column) -> Any:
    """The Arrow field of a column."""
    arrow = arrow_library()
    if is_named(column):
        kind = arrow.dictionary(arrow.int16(), arrow.string())
    else:
        kind = arrow.from_numpy_dtype(column.dtype)
        kind = arrow.list_(kind, column.items) if column.items else kind
    about = {"unit": column.unit.strip("`"), "meaning": column.meaning, "values": _flag_names(column)}
    return arrow.field(column.name, kind, False, {name: text for name, text in about.items() if text})


def is_named(column: Column) -> bool:
    """Whether the values of a column are exported as names: those of an enumeration, but not flags."""
    return column.kind is not None and not issubclass(column.kind, IntFlag)


def _flag_names(column: Column) -> str:
    if column.kind is None or is_named(column):
        return ""
    return " ".join(f"{one.name}={one.value:#x}" for one in column.kind)


def arrow_array(column: Column, values: NDArray[Any]) -> Any:
    """The values of a column as an Arrow array of the type of its field."""
    arrow = arrow_library()
    if is_named(column):
        return _names(column, values)
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, column.items) if column.items else flat


def _names(column: Column, values: NDArray[Any]) -> Any:
    """The names of the values. One that is no member of the enumeration is its number in hexadecimal."""
    arrow = arrow_library()
    assert column.kind is not None
    names = {one.value: one.name for one in column.kind}
    known = np.array(sorted(names), values.dtype)
    place = np.searchsorted(known, values).astype(np.int16)
    texts = [names[value] for value in known.tolist()]
    strange = np.append(known, known[-1:])[place] != values
    if strange.any():
        others, place[strange] = np.unique(values[strange], return_inverse=True)
        place[strange] += len(texts)
        texts += [f"{value:#x}" for value in others.tolist()]
    return arrow.DictionaryArray.from_arrays(arrow.array(place), arrow.array(texts, arrow.string()))
