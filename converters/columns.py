"""Records as columns: one NumPy array per field, with its dtype, unit and meaning declared beside its name.

    @columns
    class RowColumns(Columns):
        offset: NDArray[np.uint64] = column_of("bytes", "from the function's start")

Strategy: the dtype comes from the annotation, so type checkers and the run time read the same declaration. Operations
on all columns of a class (select, concatenate, allocate, ...) are methods here, so a new column is one line.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np

from ..schemas.data_classes import dataclass, parts_of
from .arrow import arrow_table
from .column import Column as Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Which = NDArray[np.integer[Any]] | NDArray[np.bool_] | slice

C = TypeVar("C")
_ANNOTATION = re.compile(r"NDArray\[np\.(\w+)\]")


def column_of(unit: str | type[IntEnum | IntFlag] = "", meaning: str = "", *, items: int = 0, fill: int = 0) -> Any:
    """Declare a column. `unit` is the unit of its values, or the enumeration that they are members of; `items` the
    number of values per record, if not one; `fill` the value that `Columns.defaults` gives it."""
    name, kind = (unit, None) if isinstance(unit, str) else (f"`{unit.__name__}`", unit)
    return field(metadata={"unit": name, "meaning": meaning, "items": items, "fill": fill, "kind": kind})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(column_of,))
def columns(cls: type[C]) -> type[C]:
    """Make a subclass of `Columns` a frozen data class with the columns as its fields."""
    made: Any = dataclass(frozen=True, slots=True, eq=False)(cls)
    made.declared = tuple(_declared(one.name, one.type, one.given.metadata) for one in parts_of(made))
    described = (f"    {one.name} ({one.dtype}): {one.unit} {one.meaning}".rstrip() for one in made.declared)
    made.__doc__ = "\n".join([f"{cls.__doc__}\n", *described])
    return cast("type[C]", made)


def _declared(name: str, annotation: str, metadata: Any) -> Column:
    found = _ANNOTATION.fullmatch(annotation)
    if not found:
        raise TypeError(f"{name}: {annotation} is not a column: expected NDArray[np.<type>]")
    return Column(name, np.dtype(getattr(np, found[1])), **metadata)


class Columns:
    """The base of every class of columns. All columns have the same length, the number of records.

    `declared` has the declaration of each column, in order.
    """

    __slots__ = ()
    declared: ClassVar[tuple[Column, ...]]

    def __len__(self) -> int:
        """The number of records."""
        return len(self.arrays()[0])

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The columns, in order."""
        return tuple(getattr(self, one.name) for one in self.declared)

    def views(self, without: Container[str] = ()) -> dict[str, Any]:
        """The columns by name, as kernels take them (`views` of converters/kernels), but for some names."""
        names = (one.name for one in self.declared if one.name not in without)
        return {name: np.ascontiguousarray(getattr(self, name)).data for name in names}

    def record(self, index: int) -> dict[str, Any]:
        """One record as Python values, by name; a column with several values per record gives a list."""
        return {one.name: getattr(self, one.name)[index].tolist() for one in self.declared}

    def to_arrow(self) -> Any:
        """The columns as a `pyarrow.Table`; numbers are not copied. Raises ImportError without pyarrow."""
        return arrow_table(zip(self.declared, self.arrays(), strict=True))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The columns for any library with the Arrow PyCapsule interface, such as Polars, DuckDB and pandas."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def select(self, which: Which) -> Self:
        """Some of the records, given by indices, a mask or a slice."""
        return type(self)(*(array[which] for array in self.arrays()))

    def insert(self, before: NDArray[np.integer[Any]], records: Self) -> Self:
        """Insert `records`, each before the record at its index `before` (as np.insert)."""
        pairs = zip(self.arrays(), records.arrays(), strict=True)
        return type(self)(*(np.insert(array, before, added, axis=0) for array, added in pairs))

    def put(self, where: Which, records: Self) -> None:
        """Overwrite the records at `where`."""
        for array, new in zip(self.arrays(), records.arrays(), strict=True):
            array[where] = new

    def resized(self, count: int) -> Self:
        """Columns with space for `count` records, at least as many as now; what is added is undefined."""
        columns = self.empty(count)
        columns.put(slice(len(self)), self)
        return columns

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the records of all parts."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in cls.declared))

    @classmethod
    def empty(cls, count: int) -> Self:
        """Uninitialized columns."""
        return cls(*(np.empty(one.shape(count), one.dtype) for one in cls.declared))

    @classmethod
    def defaults(cls, count: int, **given: NDArray[Any]) -> Self:
        """Records with the given columns, and 0 in the others, or the `fill` of their declaration.

        Raises TypeError for a column that is not declared, or has another type or length.
        """
        for one in cls.declared:
            shape = one.shape(count)
            if one.name not in given:
                given[one.name] = np.full(shape, one.fill, one.dtype) if one.fill else np.zeros(shape, one.dtype)
            elif (found := given[one.name]).dtype != one.dtype or len(found) != count:
                raise TypeError(f"{one.name}: {len(found)} {found.dtype}, expected {count} {one.dtype}")
        return cls(**given)

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]]) -> Self:
        """Columns made from records as `record` returns them."""
        count = len(records)
        values = (([record[one.name] for record in records], one) for one in cls.declared)
        return cls(*(np.array(found, one.dtype).reshape(one.shape(count)) for found, one in values))
