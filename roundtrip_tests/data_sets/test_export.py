"""Parquet files of `unwindkit export`, read by DuckDB, Polars and pyarrow, and counted against readelf."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import unwindkit
from unwindkit import BuildError, DebugFiles, ExportReport, Failure, export_file, export_tree
from unwindkit.data_sets.fields import DATA_SETS

from ..support.commands import DONE, WRONG
from ..support.commands import unwindkit as command
from ..support.oracles import oracle_root, run_oracle
from ..support.packages import deb
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf

pytestmark = pytest.mark.oracle("pyarrow", "duckdb", "polars", "sid-s390x")

ALONE = DebugFiles(links=False)
FILES = 20
# Code that is no padding.
RETURNS = replace(CODE, data=b"\xc3" * len(CODE.data))
ROW = re.compile(r"^([0-9a-f]{16}) ", re.MULTILINE)
FDE = re.compile(r" FDE cie=[0-9a-f]+ pc=[0-9a-f]+\.\.([0-9a-f]+)")


def query(text: str) -> list[tuple[Any, ...]]:
    """The records that DuckDB returns."""
    import duckdb

    found: list[tuple[Any, ...]] = duckdb.sql(text).fetchall()
    return found


def shards(folder: Path, name: str) -> str:
    """A data set, as a table for DuckDB."""
    return f"'{folder}/{name}/**/*.parquet'"


def some_files() -> list[Path]:
    """Linked files of this machine, small and large."""
    found = [Path(one) for one in REAL_FILES]
    for path in sorted(Path("/usr/bin").iterdir()):
        if len(found) < FILES and path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF" and path not in found:
                    found.append(path)
    return found


@pytest.fixture(scope="module", name="exported")
def _exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shards of `some_files`."""
    out = tmp_path_factory.mktemp("exported")
    reports = list(export_tree(some_files(), out, debug=ALONE))
    assert [type(one) for one in reports] == [ExportReport] * FILES
    return out


@pytest.fixture(scope="module", name="tree")
def _tree(built_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs, one of which is malformed, and a package."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / "bin").mkdir()
    shutil.copy(built_program, tree / "bin" / "a")
    shutil.copy("/bin/ls", tree / "ls")
    deb(tree, tree / "x.deb")
    (tree / "broken").write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    return tree


def contents(folder: Path) -> dict[str, bytes]:
    """All shards."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_counts_are_those_of_readelf(exported: Path) -> None:
    """FDEs and CIEs of `.eh_frame`; and for each FDE the number of rows at different PCs."""
    fdes = dict(query(f"select module, count(*) from {shards(exported, 'fdes')} where source = '.eh_frame' group by 1"))
    rows = dict(
        query(
            f"select module, count(*) from {shards(exported, 'functions')} join {shards(exported, 'rows')}"
            " using (module, run) where source = '.eh_frame' group by 1"
        )
    )
    for path in map(str, some_files()):
        text = run_oracle("readelf", "-wNF", path)
        text = text[: text.find("Contents of the .debug_frame")] if "Contents of the .debug_frame" in text else text
        # Of a function whose FDE has only DW_CFA_nop it prints no row; of others also those past the end.
        parts = FDE.split(text)
        counted = [
            max(1, len({row for row in ROW.findall(shown.partition(" CIE ")[0]) if row < end}))
            for end, shown in zip(parts[1::2], parts[2::2], strict=True)
        ]
        assert (fdes[path], rows[path]) == (len(counted), sum(counted)), path


def test_all_readers_find_the_same(exported: Path) -> None:
    import polars
    import pyarrow.compute
    import pyarrow.dataset

    for name, fields in DATA_SETS.items():
        numbers = [one.name for one in fields.numbers() if one.kind is None and not one.items]
        chosen = ", ".join(f'sum("{one}"::hugeint)' for one in numbers)
        ((count, *sums),) = query(f"select count(*), {chosen or 0} from {shards(exported, name)}")
        # Polars adds modulo 2**64, as NumPy does.
        frame = polars.scan_parquet(f"{exported}/{name}/**/*.parquet").collect()
        table = pyarrow.dataset.dataset(str(exported / name)).to_table()
        assert len(frame) == len(table) == count
        if not count:
            continue
        for number, wanted in zip(numbers, sums, strict=False):
            found = sum(frame[number].cast(polars.Int128).to_list())
            assert found == (wanted or 0) == sum(table[number].to_pylist()), (name, number)


def test_rows_and_rules_are_those_of_the_table(exported: Path) -> None:
    """Every function of a file, its rows and rules joined by SQLite, which shares nothing with the writer."""
    path = REAL_FILES[0]
    table = unwindkit.read_elf(path, "all", ALONE)
    base = sqlite3.connect(":memory:")
    for name in ("functions", "rows", "rules"):
        found = query(f"select * from {shards(exported, name)} where module = '{path}'")
        columns = [one for (one, *_) in query(f"describe select * from {shards(exported, name)}")]
        base.execute(f"create table {name} ({str(columns)[1:-1]})")
        base.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", found)
    base.execute("create index by_run on rows (run)")
    base.execute("create index by_set on rules (first_rule)")
    for number in range(0, len(table), 7):
        function = table.function(number)
        for row in function.rows:
            asked = "select cfa_kind, cfa_register, cfa_offset, first_rule from functions join rows using (run)"
            ((kind, register, offset, rules),) = base.execute(
                f"{asked} where function = ? and rows.offset = ?", (number, row.offset)
            ).fetchall()
            assert kind == row.cfa.kind.name
            if kind == "REGISTER":
                assert (register, offset) == row.cfa[1:]
            asked = "select register, kind, value from rules where first_rule = ? order by register"
            saved = base.execute(asked, (rules,)).fetchall()
            wanted = [(one.register, one.kind.name) for one in row.registers]
            assert [one[:2] for one in saved] == wanted
            values = [one.value for one in row.registers if isinstance(one.value, int)]
            assert [one[2] for one in saved if "EXPRESSION" not in one[1]] == values


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("compact", ["none", "share", "merge"])
def test_costs_add_up_to_the_section(version: int, compact: Any, tmp_path: Path) -> None:
    path = REAL_FILES[0]
    export_file(path, tmp_path, version=version, compact=compact, debug=ALONE)
    report = unwindkit.write_sframe_section(path, tmp_path / "section", version=version, compact=compact, debug=ALONE)
    section = (tmp_path / "section").stat().st_size
    fde = {2: 20, 3: 16}[version]
    ((fdes, fres, stored),) = query(
        "select count(*), sum(fres), (select sum(fre_bytes) from (select distinct fre_offset, fre_bytes from {0}))"
        " from {0}".format(shards(tmp_path, "sframe_fdes"))
    )
    assert 28 + fde * fdes + stored == section
    assert (fdes, section) == (report.fdes, report.sframe_bytes)
    assert fres == report.fres if compact == "none" else fres >= report.fres
    ((*about,),) = query(
        f"select new_sframe_fdes, new_sframe_fres, new_sframe_bytes, refused_bytes from {shards(tmp_path, 'modules')}"
    )
    refused = sum(one.bytes for one in report.refused.values())
    assert about == [report.fdes, report.fres, section, refused]
    ((ranges, bytes_),) = query(f'select count(*), coalesce(sum("end" - start), 0) from {shards(tmp_path, "refusals")}')
    assert (ranges, bytes_) == (sum(one.ranges for one in report.refused.values()), refused)


def test_the_bytes_of_records_are_the_section(exported: Path) -> None:
    """CIEs in use, FDEs and the terminator: what no linker has left unused is all there is."""
    path = REAL_FILES[0]
    ((size,),) = query(f"select eh_frame_bytes from {shards(exported, 'modules')} where module = '{path}'")
    total = 4
    for name in ("cies", "fdes"):
        ((found,),) = query(f"select sum(bytes) from {shards(exported, name)} where module = '{path}'")
        total += found
    assert total == size


def test_code_is_covered_refused_or_uncovered(exported: Path) -> None:
    """What is in no function is padding or in `uncovered`."""
    asked = "select module, code_bytes - covered_bytes from {} order by 1".format(shards(exported, "modules"))
    left = dict(query(f'select module, sum("end" - start) from {shards(exported, "uncovered")} group by 1'))
    for module, uncovered in query(asked):
        assert 0 <= left.get(module, 0) <= uncovered
    checked = unwindkit.check(REAL_FILES[1], debug=ALONE)
    found = sum(int(one.findings.size[one.findings.code == 1].sum()) for one in checked.sections)
    assert found == 0


def s390x_libc() -> Path:
    return next(oracle_root("sid-s390x").glob("usr/lib/s390x-linux-gnu/libc.so.6"))


def test_a_big_endian_file(tmp_path: Path) -> None:
    path = s390x_libc()
    report = export_file(path, tmp_path)
    assert report.functions == len(unwindkit.read_elf(path)) + 1
    ((order, abi, fdes),) = query(f"select byte_order, sframe_abi, new_sframe_fdes from {shards(tmp_path, 'modules')}")
    assert (order, abi, fdes) == ("big", "S390X_ENDIAN_BIG", report.records["sframe_fdes"])


def test_a_relocatable_file(tmp_path: Path) -> None:
    """Addresses are offsets in their sections, as in the table."""
    (tmp_path / "a.c").write_text("int f(int a) { return a + 1; }\nint g(int a) { return f(a) * f(3); }\n")
    subprocess.run(["gcc", "-g", "-O2", "-ffunction-sections", "-c", "a.c"], cwd=tmp_path, check=True)
    report = export_file(tmp_path / "a.o", tmp_path / "out")
    table = unwindkit.read_elf(tmp_path / "a.o")
    found = query(f"select start, size, section, name from {shards(tmp_path / 'out', 'functions')} order by function")
    functions = [table.function(number) for number in range(len(table))]
    assert found == [(one.start, one.size, one.section, name) for one, name in zip(functions, "fg", strict=True)]
    assert query(f"select start, size from {shards(tmp_path / 'out', 'sframe_fdes')} order by size") == sorted(
        ((one.start, one.size) for one in functions), key=lambda one: one[1]
    )
    assert report.records["lines"] == len(unwindkit.read_lines(tmp_path / "a.o"))


def test_a_file_without_unwind_information(tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(tiny_elf(RETURNS))
    report = export_file(tmp_path / "none", tmp_path / "out")
    assert (report.functions, list(report.sizes)) == (0, ["uncovered", "modules"])
    ((code, covered),) = query(f"select code_bytes, covered_bytes from {shards(tmp_path / 'out', 'modules')}")
    assert (code, covered) == (len(RETURNS.data), 0)
    # No module has records, but the columns are there.
    assert query(f"select start, name from {shards(tmp_path / 'out', 'functions')}") == []


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "threads": lambda: ThreadPoolExecutor(3),
    "processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_executor_gives_what_this_process_gives(name: str, tree: Path, tmp_path: Path) -> None:
    wanted = list(export_tree([tree], tmp_path / "here", debug=ALONE))
    assert [isinstance(one, Failure) for one in wanted] == [False, True, False, False, False]
    with EXECUTORS[name]() as executor:
        found = list(export_tree([tree], tmp_path / "there", executor, debug=ALONE))
    assert [one.file for one in found] == [one.file for one in wanted]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    modules = query(f"select module, package from {shards(tmp_path / 'here', 'modules')} order by 1")
    package = str(tree / "x.deb")
    assert modules == [
        (f"{tree}/bin/a", None), (f"{tree}/ls", None), (f"{package}!/bin/a", package), (f"{package}!/ls", package)
    ]  # fmt: skip


def test_a_manifest_goes_on_where_a_run_ended(tree: Path, tmp_path: Path) -> None:
    arguments = ("export", tree, "-o", tmp_path / "out", "--manifest", tmp_path / "manifest", "--no-debug-links")
    assert command(*arguments).returncode == WRONG
    wanted = contents(tmp_path / "out")
    again = command(*arguments)
    assert again.stderr.splitlines()[-1] == "5 files: 4 exported (4 by an earlier run), 1 failed"
    shard = next((tmp_path / "out" / "rules").rglob("a.parquet"))
    for change in (shard.unlink, lambda: shard.write_bytes(b"changed")):
        change()
        assert "(3 by an earlier run)" in command(*arguments, "-j2").stderr.splitlines()[-1]
        assert contents(tmp_path / "out") == wanted


def test_shards_of_an_earlier_file_do_not_stay(tree: Path, tmp_path: Path) -> None:
    shutil.copy(tree / "ls", tmp_path / "x")
    export_file(tmp_path / "x", tmp_path / "out", debug=ALONE)
    (tmp_path / "x").write_bytes(tiny_elf(RETURNS))
    export_file(tmp_path / "x", tmp_path / "out", debug=ALONE)
    assert sorted(path.parent.name for path in (tmp_path / "out").rglob("x.parquet")) == ["modules", "uncovered"]


def test_only_some_data_sets(tree: Path, tmp_path: Path) -> None:
    done = command("export", tree / "ls", "-o", tmp_path / "out", "--only", "rows", "--only", "fdes")
    assert done.returncode == DONE
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fdes", "rows"]
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 4
    refused = command("export", tree / "ls", "-o", tmp_path / "out", "--only", "frames")
    assert refused.returncode == WRONG
    assert "'frames' is not one of modules, functions, rows" in refused.stderr
    with pytest.raises(BuildError, match="version 4 cannot be written"):
        export_file(tree / "ls", tmp_path, version=4)


def test_columns_have_their_declarations(tmp_path: Path) -> None:
    import json

    import pyarrow.parquet

    export_file(REAL_FILES[0], tmp_path, only=("functions",), debug=ALONE)
    about = json.loads(pyarrow.parquet.read_metadata(tmp_path / "functions" / "_columns.parquet").metadata[b"columns"])
    (start,) = (one for one in unwindkit.read_elf(REAL_FILES[0]).functions.declared if one.name == "start")
    assert about["start"] == {"unit": start.unit, "meaning": start.meaning}
    assert about["flags"]["values"].startswith("SIGNAL_FRAME=0x1 PAUTH_B_KEY=0x2")


def arrow_consumers() -> Iterator[Callable[[Any], list[dict[str, Any]]]]:
    import polars
    import pyarrow

    yield lambda columns: pyarrow.table(columns).to_pylist()
    yield lambda columns: polars.DataFrame(columns).to_dicts()
    yield lambda columns: columns.to_arrow().to_pylist()


def test_columns_are_arrow_data() -> None:
    """Through the PyCapsule interface; enumerations by name."""
    table = unwindkit.read_elf(REAL_FILES[0])
    for read in arrow_consumers():
        for columns in (table.functions, table.rows, table.rules):
            found = read(columns)
            kinds = {one.name: one.kind for one in columns.declared}
            for number in (0, len(columns) // 2, len(columns) - 1):
                for name, value in columns.record(number).items():
                    kind = kinds[name]
                    is_named = kind is not None and isinstance(found[number][name], str)
                    member = found[number][name]
                    assert (member if not is_named else kind.__members__.get(member, value)) == value, name
    assert isinstance(read(table.rows)[0]["cfa_kind"], str)
    assert table.to_arrow().keys() == {"functions", "rows", "rules"}
