"""The queries and programs of the manual's page on `unwindkit export`, run on the shards of a small program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from unwindkit import DebugFiles, export_tree

PAGE = Path(__file__).parents[2] / "docs" / "commands" / "export.md"
SQL, PYTHON = (
    re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for language in ("sql", "python")
)
pytestmark = pytest.mark.oracle("pyarrow", "duckdb", "polars")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    list(export_tree(["/bin/ls", "/bin/cat"], folder / "data", debug=DebugFiles(links=False)))
    return folder


@pytest.mark.parametrize("query", SQL)
def test_queries(query: str, folder: Path) -> None:
    import duckdb

    found = duckdb.sql(
        query.replace("'data/", f"'{folder}/data/").replace("'rows.parquet'", f"'{folder}/rows.parquet'")
    )
    if query.startswith("COPY"):
        assert (folder / "rows.parquet").stat().st_size > 1000
        return
    records = found.fetchall()
    assert records
    if "shape" in query:
        assert records[0][0] == "r7+8"
        assert sum(one[1] for one in records) > 100
    elif "sframe" in query:
        assert records[0][0] == 2
        assert 0.5 < records[0][4] < 1.5


@pytest.mark.parametrize("program", PYTHON)
def test_programs(program: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert "REGISTER" in done.stdout or "OFFSET" in done.stdout


def test_there_are_queries() -> None:
    assert (len(SQL), len(PYTHON)) == (4, 2)
