"""The unwind information of a module as Parquet files: the job of `unwindkit export`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..converters.arrow import arrow_library
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..converters.elf.image import open_elf
from ..converters.elf.inputs import Input, input_name
from ..converters.refusals import count_reasons
from ..converters.sframe.write import Compact, check_compact, written_version
from ..data_sets.fields import DATA_SETS
from ..data_sets.model import arrow_table_of, plain_text, schema_of
from ..data_sets.of_module import ExportChoices, data_sets_of, read_module
from ..schemas.arguments import check_path, checked, each, optional
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError
from ..writers.parquet import write_parquet
from . import StrPath
from .report import FileReport, debug_file_of

SUFFIX = ".parquet"
# A shard without records: with it a query finds the columns, even if no module has records.
NO_RECORDS = "_columns"


@dataclass(frozen=True, kw_only=True)
class ExportReport(FileReport):
    """What `export_file` did. `records` of each data set, by its name, and `sizes` of those that have some, in bytes;
    `shards` are the files written, the one named by `output` last. `refused` is about the `.sframe` whose cost the data
    sets give, of `sframe_bytes`; 0 if SFrame has no ABI for the architecture."""

    rows: int
    sframe_bytes: int
    records: dict[str, int]
    sizes: dict[str, int]
    shards: tuple[str, ...]


@checked(out_dir=check_path, only=each(str), compact=optional(str), debug=DebugFiles)
def export_file(
    path: Input,
    out_dir: StrPath,
    only: Collection[str] = (),
    version: int = 2,
    compact: Compact | None = None,
    debug: DebugFiles = BY_LINKS,
) -> ExportReport:
    """Write the unwind information of an ELF file as Parquet: OUT_DIR/DATA SET/NAME.parquet for each data set that has
    records, NAME being the file's. `only` are the data sets to write, by default all.

    `version` and `compact` are those of the `.sframe` whose cost is given, as in `to_sframe`. `debug` chooses the
    separate debug file. Raises OSError, ParseError for malformed input, BuildError for an unknown data set or choice,
    ImportError without pyarrow.
    """
    name = input_name(path)
    choices = export_choices(only, version, compact)
    write_columns(Path(out_dir), choices.only)
    return export_as(path, Path(out_dir), Path(name).name, choices, debug)


def export_choices(only: Collection[str], version: int, compact: Compact | None) -> ExportChoices:
    """The choices of an export; no names are for all data sets. Raises BuildError for what does not exist."""
    written_version(version)
    check_compact(compact or "none")
    for unknown in sorted(set(only) - DATA_SETS.keys()):
        raise BuildError("", None, "only", f"{unknown!r} is not one of {', '.join(DATA_SETS)}")
    return ExportChoices(tuple(name for name in DATA_SETS if not only or name in only), version, compact)


def write_columns(folder: Path, only: Collection[str]) -> None:
    """Write a shard without records for each data set; its metadata describe the columns. Raises OSError, ImportError
    without pyarrow."""
    import json

    arrow_library()
    for name in only:
        schema = schema_of(DATA_SETS[name])
        about = {one.name: {key.decode(): text.decode() for key, text in one.metadata.items()} for one in schema}
        write_parquet(shard_of(folder, name, NO_RECORDS), schema.empty_table(), {"columns": json.dumps(about)})


def shard_of(folder: Path, name: str, place: str) -> Path:
    """Where the shard of a data set is, of the module that has this place in the source."""
    return folder / name / (place + SUFFIX)


def export_as(
    path: Input, folder: Path, place: str, choices: ExportChoices, debug: DebugFiles, package: str | None = None
) -> ExportReport:
    """As `export_file`, with the place of the shards; `package` is what the file is in. Shards of an earlier run that
    have no records now are removed."""
    image = with_debug_file(open_elf(path), debug)
    name = plain_text(input_name(path))
    module = read_module(image, choices)
    records = dict.fromkeys(choices.only, 0)
    sizes: dict[str, int] = {}
    shards = []
    for data_set, found in data_sets_of(module, choices, package):
        records[data_set] = len(found)
        if len(found):
            shard = shard_of(folder, data_set, place)
            sizes[data_set] = write_parquet(shard, arrow_table_of(found, name))
            shards.append(str(shard))
    for data_set in records.keys() - sizes.keys():
        shard_of(folder, data_set, place).unlink(missing_ok=True)
    return ExportReport(
        file=input_name(path),
        **debug_file_of(image),
        output=shards[-1] if shards else str(folder),
        functions=len(module.table),
        refused=count_reasons(module.refusals),
        rows=len(module.table.rows),
        sframe_bytes=0 if module.encoded is None else len(module.encoded),
        records=records,
        sizes=sizes,
        shards=tuple(shards),
    )
