"""Readers under test: a right one, one that reads two bytes otherwise, and ones that crash, hang or print nonsense."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from unwindkit.cli import main
from unwindkit.conform import explain
from unwindkit.conform.reader import ReaderError
from unwindkit.conform.report import report_json, report_text
from unwindkit.conform.run import Result, conform
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.corpus.formats import Options, format_named

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "commands" / "conform.md").read_text(encoding="utf-8")
LOOP = "import sys\nfor line in sys.stdin:\n    pcs = line.split('\\t')[5:]\n    "


def run(tmp_path: Path, body: str, count: int = 4, timeout: float = 20) -> Result:
    """Four cases for a reader in Python; `body` has the PCs of a case."""
    path = tmp_path / "reader.py"
    path.write_text(LOOP + body, encoding="utf-8")
    options = Options(valid_only=True)
    return conform([sys.executable, str(path)], ["sframe-v2"], count, options, raw=True, timeout=timeout, shrinks=0)


def kinds(result: Result) -> set[tuple[str, str]]:
    return {(one.field, one.kind) for one in result.failures.values()}


def test_the_reader_of_the_manual_passes(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)
    assert sum(1 for line in code.splitlines() if line) <= 60
    path = tmp_path / "reader.py"
    path.write_text(code, encoding="utf-8")
    result = conform([sys.executable, str(path)], ["sframe-v2"], 40, raw=True)
    assert report_text(result) == "sframe-v2: 40 of 40 cases pass"


def test_the_report_names_the_two_bytes_that_are_read_in_another_layout(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = [f"--without={name}" for name in ("auxiliary-header", "gaps", "pcmask")]
    selection = ["--raw", "--format", "sframe-v2", "--count", "12", "--valid-only", *left_out]
    reader = [sys.executable, "-m", "roundtrip_tests.adapters.wrong_layout"]
    assert main(["conform", *selection, "--", *reader]) == 1
    paragraphs = capsys.readouterr().out.split("\n\n")
    assert "\n\n".join(paragraphs[:2]) in MANUAL
    # The section has 28 bytes of header and an FDE of 20; func_info is its byte 16, and the FRE's info byte its second.
    assert "func_info, byte 0x2c" in paragraphs[1]
    assert "info, byte 0x31" in paragraphs[1]


# Our own reader on changed bytes: what it answers is wrong in one way.
CHANGED = """
import re, sys
from unwindkit.conform.own_reader import answers
from unwindkit.converters.arch.table import ARCHITECTURES
for line in sys.stdin:
    path, section, arch, order, address, *pcs = line.rstrip("\\n").split("\\t")
    data = open(path, "rb").read()
    data = {change}
    found = answers(data, section, ARCHITECTURES[arch], order, int(address, 16), [int(pc, 16) for pc in pcs])
    print(*("\\t".join([pc, *answer]) for pc, answer in zip(pcs, found)), sep="\\n", flush=True)
"""


@pytest.mark.parametrize(
    ("form", "change", "size", "sentence"),
    [
        # Addresses relative to their own places are taken as relative to the section.
        ("eh-frame-hdr", "data[:3] + bytes([data[3] & 0x0F | 0x30]) + data[4:]", 28, "table_enc, byte 0x3 .* were 0x3"),
        ("breakpad", "re.sub(rb'([.]cfa: +[^ ]+ +[^ ]+ +)-', rb'\\1+', data)", 200, r"operator, .*\(0x2d\).* 0x2b"),
    ],
)  # fmt: skip
def test_a_small_case_and_the_byte_are_found(form: str, change: str, size: int, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "reader.py"
    path.write_text(CHANGED.replace("{change}", change), encoding="utf-8")
    result = conform([sys.executable, str(path)], [form], 40, Options(valid_only=True), raw=True)
    failure = next(one for one in result.failures.values() if one.kind == "wrong")
    assert failure.case is not None
    assert len(failure.case.data) <= size
    assert any(re.search(sentence, one) for one in failure.bytes_named)


def test_the_byte_of_a_line_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose line_base is one too high, in the 32-bit format: byte 12 of a unit of version 2."""
    monkeypatch.setattr(explain, "_MOST_BYTES", 3)  # minimum_instruction_length, default_is_stmt, line_base
    path = tmp_path / "reader.py"
    change = "data[:12] + bytes([data[12] + 1 & 255]) + data[13:] if data[:4] != bytes([255] * 4) else data"
    path.write_text(CHANGED.replace("{change}", change), encoding="utf-8")
    result = conform([sys.executable, str(path)], ["debug-line-2"], 2, Options(valid_only=True), raw=True, shrinks=0)
    named = result.failures["debug-line-2", "line", "wrong"].bytes_named
    assert any(re.fullmatch(r".*\.line_base, byte 0xc of \.debug_line .* is read as .*", one) for one in named)
    assert not any("default_is_stmt" in one for one in named)


def test_pyelftools_reads_window_save_as_nop() -> None:
    """A fault of another reader, as conform reports it: see the list in the manual."""
    known = {"window-save", "high-address"}
    others = ARCHITECTURES.keys() - {"sparc64"}
    cannot = frozenset(set(format_named("debug-frame").features) - known | others)
    reader = [sys.executable, "-m", "roundtrip_tests.adapters.pyelftools_frames"]
    result = conform(reader, ["debug-frame"], 20, Options(valid_only=True, without=cannot))
    failure = result.failures["debug-frame", "fp", "wrong"]
    assert failure.case is not None
    assert len(failure.case.data) <= 60
    assert any(
        re.search(r"opcode, byte 0x.. of .debug_frame \(0x2d\) is read as .* 0x00", one) for one in failure.bytes_named
    )


def test_a_reader_that_ends_or_does_not_answer_is_started_again(tmp_path: Path) -> None:
    assert kinds(run(tmp_path, "sys.exit(1)")) == {("row", "crash")}
    result = run(tmp_path, "import time; time.sleep(60)", count=1, timeout=0.5)
    assert kinds(result) == {("row", "hang")}
    assert report_json(result)["failures"][0]["cases"] == 1


def test_what_a_reader_may_answer(tmp_path: Path) -> None:
    rejects = run(tmp_path, "print('error', 'no', sep='\\t', flush=True)")
    assert kinds(rejects) == {("row", "rejected")}
    assert all(one.cases == 4 for one in rejects.failures.values())
    no_rows = run(tmp_path, "[print(pc.strip(), '-', sep='\\t', flush=True) for pc in pcs]")
    assert kinds(no_rows) == {("row", "missing")}
    unknown = run(tmp_path, "[print(pc.strip(), *'???', sep='\\t', flush=True) for pc in pcs]")
    assert kinds(unknown) == {("row", "where there is none")}


@pytest.mark.parametrize("line", ["hello", "0x1\\t-", "' + pcs[0].strip() + '\\tr7+8"])
def test_a_line_that_the_protocol_does_not_have(tmp_path: Path, line: str) -> None:
    with pytest.raises(ReaderError, match="the reader answered"):
        run(tmp_path, f"print('{line}', flush=True)")


def test_a_reader_that_is_not_there() -> None:
    with pytest.raises(ReaderError, match="cannot run /nowhere/reader: No such file"):
        conform(["/nowhere/reader"], ["sframe-v2"], 1)


def test_the_smallest_case_is_saved_with_its_answers(tmp_path: Path) -> None:
    assert main(["conform", "--count", "1", "--format", "sframe-v3", "--save", str(tmp_path), "--", "false"]) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sframe-v3-row-crash.elf", "sframe-v3-row-crash.json"]
