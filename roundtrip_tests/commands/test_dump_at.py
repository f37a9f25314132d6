"""`unwindkit dump --at PC|SYMBOL`: only the functions there, printed as in the whole dump.

Strategy: the output is paragraphs of the whole dump, selected by the addresses in their headings.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from unwindkit import BuildError, addresses_of_names, dump_sections, open_elf, write_sframe

from ..support.commands import DONE, build_program, refuses, unwindkit, usage_error
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf

FDE = re.compile(r"^([0-9a-f]{8}) .* FDE cie=([0-9a-f]{8}) pc=([0-9a-f]+)\.\.([0-9a-f]+)$", re.M)


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real file with `.eh_frame` and `.sframe`."""
    path = tmp_path_factory.mktemp("real") / "file"
    write_sframe(REAL_FILES[0], path)
    return path


def paragraphs(text: str) -> list[str]:
    return [one for part in text.split("\n\n") if (one := part.strip("\n"))]


def chosen(text: str, pcs: list[int]) -> list[str]:
    """The paragraphs of a dump of `.eh_frame`: its heading, FDEs that cover one of these PCs, and the CIEs of those."""
    heading, *entries = paragraphs(text)
    fdes = [one for one in entries if (found := FDE.match(one)) and covers(int(found[3], 16), int(found[4], 16), pcs)]
    cies = {found[2] for one in fdes if (found := FDE.match(one))}
    return [heading, *(one for one in entries if one in fdes or one[:8] in cies)]


def covers(start: int, end: int, pcs: list[int]) -> bool:
    return any(start <= pc < end for pc in pcs)


@pytest.mark.parametrize("option", ["--frames", "--frames-interp"])
def test_entries_of_call_frame_information(option: str, real: Path) -> None:
    whole = unwindkit("dump", option, real).stdout
    whole = whole[whole.index("Contents of the .eh_frame section") :]
    ranges = [(int(found[3], 16), int(found[4], 16)) for found in FDE.finditer(whole)]
    (first, _), (_, last_end), (middle, middle_end) = ranges[0], ranges[-1], ranges[len(ranges) // 2]
    for pcs in ([first], [middle, middle_end - 1], [last_end - 1, first], [1]):
        options = [part for pc in pcs for part in ("--at", hex(pc))]
        done = unwindkit("dump", option, *options, real)
        assert (done.returncode, done.stderr) == (DONE, "")
        assert paragraphs(done.stdout) == chosen(whole, pcs)
    assert len(chosen(whole, [1])) == 1


def test_functions_of_sframe(real: Path) -> None:
    whole = unwindkit("dump", "--sframe", real).stdout
    heading, *functions = re.split(r"\n(?=\n    func idx)", whole)
    of_start = {int(re.findall("pc = (0x[0-9a-f]+)", one)[0], 16): one for one in functions}
    first, second = sorted(of_start)[3:5]
    done = unwindkit("dump", "--sframe", "--at", hex(second), "--at", hex(first + 1), real)
    assert (done.returncode, done.stdout) == (DONE, "\n".join([heading, of_start[first], of_start[second]]) + "\n")


def test_json_has_the_same(real: Path) -> None:
    sections = json.loads(unwindkit("dump", "--json", real).stdout)
    by_name = {section["section"]: section for section in sections}
    fde = next(one for one in by_name[".eh_frame"]["entries"][3:] if one["kind"] == "FDE")
    pc = fde["initial_location"] + fde["address_range"] - 1
    found = {one["section"]: one for one in json.loads(unwindkit("dump", "--json", "--at", hex(pc), real).stdout)}
    assert sorted(found) == [".eh_frame", ".sframe"]
    assert [one["kind"] for one in found[".eh_frame"]["entries"]] == ["CIE", "FDE"]
    assert found[".eh_frame"]["entries"][1] == fde
    (function,) = found[".sframe"]["functions"]
    assert function in by_name[".sframe"]["functions"]
    assert function["func_start_address"] <= pc < function["func_start_address"] + function["func_size"]


def test_a_name_stands_for_its_address(tmp_path: Path) -> None:
    program = build_program(tmp_path)
    (main,) = addresses_of_names(open_elf(program), ["main"])["main"]
    by_name = unwindkit("dump", "--frames", "--at", "main", program)
    assert by_name.returncode == DONE
    assert by_name.stdout == unwindkit("dump", "--frames", "--at", hex(main), program).stdout
    assert [int(found[3], 16) for found in FDE.finditer(by_name.stdout)] == [main]
    refuses(program, "dump", "--at", "nothing", program, says="symbols: no function is called nothing")


def test_a_function_without_bytes_covers_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fdes = (Fde(0x1000, 0), Fde(0x1000, 4), Fde(0x1004, 4))
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", *fdes))))
    done = unwindkit("dump", "--frames", "--at", "0x1000", "--at", "0x1003", path)
    assert [found[3] + ".." + found[4] for found in FDE.finditer(done.stdout)] == [f"{0x1000:016x}..{0x1004:016x}"]


def test_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE, CFI))
    for option in ("--rawline", "--decodedline", "--aranges", "--pubnames", "--pubtypes", "--macro"):
        done = unwindkit("dump", option, "--at", "0x1000", path)
        assert usage_error(done).endswith("--at can be combined with --frames, --frames-interp and --sframe only")
    with pytest.raises(BuildError, match=r"\.debug_line: at: its entries are not functions"):
        list(dump_sections(path, (".debug_line",), at=[0x1000]))
    done = unwindkit("dump", "--frames", "--at", "0x10000000000000000", path)
    assert usage_error(done).startswith("unwindkit dump: error: ")
