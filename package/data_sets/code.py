"""The data sets of code: ranges without call frame information, and rows of line information."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..converters.arrays import group_numbers, values_at
from ..converters.elf.function_symbols import FunctionSymbols
from ..converters.elf.image import ElfImage
from ..converters.elf.relocation import LaidOut
from ..converters.files.uncovered_code import uncovered_code
from ..converters.table.model import UnwindTable
from .fields import DATA_SETS, CodeRange, SequenceNumber
from .frames import names_at
from .model import NOTHING, DataSet, Texts
from .records import placed

if TYPE_CHECKING:
    pass

LINE = ".debug_line"


def uncovered_of(laid: LaidOut, table: UnwindTable, symbols: FunctionSymbols) -> DataSet:
    """The ranges of code without a function."""
    start, end = uncovered_code(laid.image, table)
    code = sorted((one for one in laid.image.sections if one.is_code and one.size), key=lambda one: one.address)
    base = np.array([one.address for one in code], np.uint64)
    number = np.searchsorted(base, start, side="right") - 1
    texts = {"code_section": Texts([one.name for one in code], number), "name": names_at(symbols, start)}
    begin = placed(laid, start)
    return DataSet(DATA_SETS["uncovered"], texts, (CodeRange(begin, begin + (end - start)),))


def lines_of(image: ElfImage) -> DataSet | None:
    """The rows of `.debug_line`, None if the file has none. Raises ParseError."""
    if all(one.is_nobits or not one.size for one in image.named(LINE)):
        return None
    from ..converters.line.paths import paths_of
    from ..converters.line.read import lines_of_image

    table = lines_of_image(image)
    number, paths = paths_of(table)
    path = values_at(number, table.file_numbers(), NOTHING)
    texts = [one.decode("utf-8", "surrogateescape") for one in paths]
    sequence = group_numbers(np.diff(table.first_row))
    return DataSet(DATA_SETS["lines"], {"path": Texts(texts, path)}, (SequenceNumber(sequence), table.rows))
