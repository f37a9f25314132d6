"""Without pyarrow, everything but Arrow data works, and what does not says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import unwindkit

from ..support.real_files import REAL_FILES


def test_arrow_data_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = unwindkit.read_elf(REAL_FILES[0])
    for call in (table.to_arrow, table.rows.to_arrow, table.rows.__arrow_c_stream__):
        with pytest.raises(ImportError, match=r"pip install 'unwindkit\[data\]'"):
            call()
    with pytest.raises(ImportError, match=r"unwindkit\[data\]"):
        unwindkit.export_file(REAL_FILES[0], tmp_path / "out")


def test_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from unwindkit.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["export", REAL_FILES[0], "-o", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    said = "unwindkit: export: Arrow data requires pyarrow: pip install 'unwindkit[data]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
