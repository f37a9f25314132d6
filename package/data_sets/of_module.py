"""All data sets of one module."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from ..converters.elf.function_symbols import FunctionSymbols
from ..converters.elf.identity import build_id
from ..converters.elf.image import ElfImage, covered_bytes
from ..converters.elf.relocation import LaidOut, lay_out
from ..converters.files.code_frames import CodeFrames, code_frames, ranges_of, section_sizes
from ..converters.files.read_elf import DIALECTS
from ..converters.files.symbol_names import symbols_of_code
from ..converters.plt import with_uncovered_plt
from ..converters.refusals import Refusals
from ..converters.sframe.write import Compact, Encoded
from ..converters.table.model import UnwindTable, table_of
from ..schemas.data_classes import dataclass
from ..schemas.section import ParseError
from ..schemas.sframe_abi import SFRAME_ABI
from .code import lines_of, uncovered_of
from .costs import refusals_of, sframe_fdes, sframe_of
from .fields import DATA_SETS, ModuleColumns
from .frames import expressions_of, functions_of, rows_and_rules
from .model import DataSet, Texts
from .records import cies_and_fdes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class ExportChoices:
    """The data sets to make, by name, and the version and compaction of the `.sframe` whose cost is given."""

    only: tuple[str, ...]
    version: int = 2
    compact: Compact | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A module and what was read from it: `table` has the functions of `frames`, and those of PLT sections; `encoded`
    is the `.sframe` made of it, which lacks the `refusals`."""

    laid: LaidOut
    frames: CodeFrames
    table: UnwindTable
    encoded: Encoded | None
    refusals: Refusals

    @property
    def image(self) -> ElfImage:
        """The file."""
        return self.laid.image


def read_module(image: ElfImage, choices: ExportChoices) -> Module:
    """Read a file; one without call frame information has an empty table. Raises ParseError, and BuildError for
    choices that SFrame does not have."""
    laid = lay_out(image)
    if any(not one.is_nobits for name in DIALECTS for one in image.named(name)):
        frames = code_frames(laid)
    else:
        frames = CodeFrames(table_of(image.architecture, ()), (), (), ())
    table = with_uncovered_plt(laid.image, frames.table)
    return Module(laid, frames, table, *sframe_of(table, choices.version, choices.compact))


def data_sets_of(module: Module, choices: ExportChoices, package: str | None) -> Iterator[tuple[str, DataSet]]:
    """The chosen data sets with their names; empty ones may be missing. Raises ParseError."""
    laid, table = module.laid, module.table
    symbols = cache(lambda: _symbols(module.image))
    rows = cache(lambda: rows_and_rules(table))
    records = cache(lambda: cies_and_fdes(laid, module.frames.read))
    makers: dict[str, Callable[[], DataSet | None]] = {
        "functions": lambda: functions_of(laid, table, module.frames, symbols()),
        "rows": lambda: rows()[0],
        "rules": lambda: rows()[1],
        "expressions": lambda: expressions_of(table),
        "cies": lambda: records()[0],
        "fdes": lambda: records()[1],
        "sframe_fdes": lambda: sframe_fdes(laid, module.encoded),
        "refusals": lambda: refusals_of(laid, module.refusals),
        "uncovered": lambda: uncovered_of(laid, table, symbols()),
        "lines": lambda: lines_of(module.image),
        # The last one: where it is, the others are.
        "modules": lambda: _about(module, package),
    }
    for name, make in makers.items():
        made = make() if name in choices.only else None
        if made is not None:
            yield name, made


def _symbols(image: ElfImage) -> FunctionSymbols:
    with suppress(ParseError):
        return symbols_of_code(image)
    return FunctionSymbols.empty()


def _about(module: Module, package: str | None) -> DataSet:
    """The record of the module itself."""
    image, table, refusals, encoded = module.image, module.table, module.refusals, module.encoded
    covered, code = covered_bytes(image, *ranges_of(table))
    names = ".eh_frame", ".eh_frame_hdr", ".debug_frame", ".sframe"
    values = {
        "size": len(image.data),
        "address_size": image.address_size,
        "code_bytes": code,
        "covered_bytes": covered,
        **{f"{name[1:]}_bytes": size for name, size in section_sizes(image, names).items()},
        "functions": len(table),
        "rows": len(table.rows),
        "refused_bytes": int((refusals.end - refusals.start).sum()),
        "new_sframe_fdes": 0 if encoded is None else len(encoded.fdes),
        "new_sframe_fres": 0 if encoded is None else encoded.num_fres,
        "new_sframe_bytes": 0 if encoded is None else len(encoded),
    }
    abi = image.architecture.sframe
    texts = {
        "package": package,
        "sha256": hashlib.sha256(image.data).hexdigest(),
        "build_id": build_id(image).hex() or None,
        "type": str(image.type),
        "architecture": image.architecture.name,
        "byte_order": image.byte_order,
        "sframe_abi": None if abi is None else SFRAME_ABI(abi.abi_arch).name,
    }
    columns = ModuleColumns.of_records([values])
    return DataSet(DATA_SETS["modules"], {name: Texts.all_equal(text, 1) for name, text in texts.items()}, (columns,))
