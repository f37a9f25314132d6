"""A data set: the columns that it is declared to have, and their values for one module.

Strategy: numbers are the `Columns` that other parts of the project use, with their names and meanings; texts, which
those refer to by index, stand beside them. Every data set has the column `module`, by which they are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..converters.arrow import arrow_array, arrow_field, arrow_library
from ..converters.columns import Column, Columns
from ..schemas.data_classes import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOTHING = -1


class TextColumn(NamedTuple):
    """The declaration of a column of texts, which may be null."""

    name: str
    meaning: str


MODULE = TextColumn("module", "the file's name, as in messages: its path, or PACKAGE!/path")


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The values of a column of texts: the text `number[i]` (i64) of `texts` for record i; NOTHING is for null."""

    texts: Sequence[str]
    number: NDArray[np.int64]

    @classmethod
    def all_equal(cls, text: str | None, count: int) -> Texts:
        """The same text, or null, for all records."""
        return cls([text or ""], np.full(count, NOTHING if text is None else 0, np.int64))


class Fields(NamedTuple):
    """What a data set is declared to have, in this order: `module`, `texts`, and the columns of all classes."""

    meaning: str
    texts: tuple[TextColumn, ...]
    columns: tuple[type[Columns], ...]

    def numbers(self) -> Iterator[Column]:
        """The columns that are not texts."""
        for one in self.columns:
            yield from one.declared


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """The records of one module: texts by the name of the column, and columns of the declared classes, in order."""

    fields: Fields
    texts: Mapping[str, Texts]
    columns: tuple[Columns, ...]

    def __len__(self) -> int:
        """The number of records."""
        return len(self.columns[0])


@cache
def schema_of(fields: Fields) -> Any:
    """The `pyarrow.Schema` of a data set."""
    arrow = arrow_library()
    kind = arrow.dictionary(arrow.int32(), arrow.string())
    texts = [
        arrow.field(one.name, kind, one is not MODULE, {"meaning": one.meaning}) for one in (MODULE, *fields.texts)
    ]
    return arrow.schema([*texts, *(arrow_field(one) for one in fields.numbers())])


def arrow_table_of(data_set: DataSet, module: str) -> Any:
    """The `pyarrow.Table` of a data set of the module of that name."""
    arrow = arrow_library()
    texts = {MODULE.name: Texts.all_equal(module, len(data_set)), **data_set.texts}
    arrays = [_text_array(texts[one.name]) for one in (MODULE, *data_set.fields.texts)]
    for columns in data_set.columns:
        arrays += [arrow_array(*pair) for pair in zip(columns.declared, columns.arrays(), strict=True)]
    return arrow.Table.from_arrays(arrays, schema=schema_of(data_set.fields))


def _text_array(values: Texts) -> Any:
    arrow = arrow_library()
    # Of a dictionary with equal texts pyarrow writes bytes that differ from run to run.
    distinct = arrow.array([plain_text(one) for one in values.texts], arrow.string()).dictionary_encode()
    number = np.append(distinct.indices.to_numpy(), np.int32(0))[values.number]
    is_null = values.number == NOTHING
    numbers = arrow.array(number, mask=is_null if is_null.any() else None)
    return arrow.DictionaryArray.from_arrays(numbers, distinct.dictionary)


def plain_text(text: str) -> str:
    r"""A text without lone surrogates, which stand for bytes that are not UTF-8: they become \xNN."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
