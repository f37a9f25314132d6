"""`unwindkit report`: what a page shows is what the file has, however hostile its names; and a browser can use it.

Strategy: the embedded columns are decoded here from their description, and compared with a file by hand, with
readelf's rows and with a count of single PCs. Sizes are those of the command that writes the section.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest
import unwindkit
from unwindkit import BuildError, ParseError
from unwindkit.converters.elf.debug_files import BY_LINKS
from unwindkit.converters.files.inputs import Raw
from unwindkit.pages.read import read_file

from ..support.commands import DONE, refuses, usage_error
from ..support.commands import unwindkit as run
from ..support.linked_elf import START, linked_elf
from ..support.oracles import run_oracle
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import CFI, CODE, ET_REL, STRTAB, SYMTAB, Content, patched, tiny_elf

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "\u202etxt.exe",
    "a&lt;b",
    "\x07bell",
]
TAGS_WITH_ADDRESSES = {"img", "iframe", "link", "object", "embed", "audio", "video", "source", "base", "form"}


class _Seen(HTMLParser):
    """The tags with their attributes, the text of scripts, and all other text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        inside = self.scripts if self.tags and self.tags[-1][0] == "script" else self.texts
        if inside is self.scripts and not data.isspace():
            self.scripts[-1] += data
        else:
            self.texts.append(data)


def embedded(page: str) -> list[dict[str, Any]]:
    """The columns of each file."""
    found = re.findall(r'<script class=columns type="text/plain">([^<]*)</script>', page)
    return [json.loads(zlib.decompress(base64.b64decode(one))) for one in found]


def functions(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """One record per function, with the rows of its run: offset and text."""
    counts = columns["runs"]["count"]
    rows = zip(columns["runs"]["offset"], columns["runs"]["row"], strict=True)
    runs = []
    for count in counts:
        run_rows = list(islice(rows, count))
        offsets = accumulate(distance for distance, _ in run_rows)
        runs.append([(offset, columns["rows"][text]) for offset, (_, text) in zip(offsets, run_rows, strict=True)])
    assert not list(rows)
    table = columns["functions"]
    starts = [high << 32 | low for high, low in zip(accumulate(table["high"]), accumulate(table["low"]), strict=True)]
    found = [
        {
            "start": start,
            "size": int(table["size"][index]),
            "name": table["name"][index],
            "symbol": table["symbol"][index],
            "rows": runs[table["run"][index]],
            "sources": [name for bit, name in enumerate(columns["sources"]) if table["sources"][index] >> bit & 1],
            **{version: texts[table[version][index]] for version, texts in columns["refused"].items()},
        }
        for index, start in enumerate(starts)
    ]
    if columns["sections"]:
        for one, section in zip(found, table["section"], strict=True):
            one["section"] = columns["sections"][section]
    return found


def program(names: list[bytes]) -> bytearray:
    """A file with functions of these names, one after another from the first function's start, 1 byte each."""
    strings, places = b"\0", []
    for name in names:
        places.append(len(strings))
        strings += name + b"\0"
    symbols = b"".join(struct.pack("<IBBHQQ", place, 0x12, 0, 1, 0x1000 + at, 1) for at, place in enumerate(places))
    table, pool = Content(".symtab", bytes(24) + symbols, SYMTAB, 0), Content(".strtab", strings, STRTAB, 0)
    return patched(tiny_elf(CODE, CFI, table, pool), section=3, sh_link=4, sh_entsize=24)


def written(folder: Path, data: bytes | bytearray, name: str = "program") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def cells(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table after a heading, by their first cell; pictures are left out."""
    part = page.partition(f"<h2>{heading}</h2>")[2].partition("<h2")[0]
    rows = re.findall(r"<tr><th scope=row>(.*?)</th>(.*?)</tr>", part, re.DOTALL)
    plain = {re.sub("<[^>]*>", "", name): re.findall(r"<td class=number>(.*?)</td>", rest) for name, rest in rows}
    assert len(plain) == len(rows)
    return plain


def test_the_table_of_a_file_by_hand() -> None:
    """Two functions in `.eh_frame` and `.sframe`; the first has a symbol, and a second row after 1 byte."""
    (columns,) = embedded(unwindkit.report([linked_elf()]))
    one, two = "cfa=sp+8 ra=c-8", "cfa=sp+16 ra=c-8"
    about = {"size": 0x40, "sources": [".eh_frame", ".sframe"], "v2": "", "v3": ""}
    assert functions(columns) == [
        {"start": START, "name": "main", "symbol": "main", "rows": [(0, one), (1, two)], **about},
        {"start": START + 0x40, "name": "", "symbol": "", "rows": [(0, one)], **about},
    ]
    assert sorted(columns["rows"]) == sorted([one, two])
    assert (columns["file"], columns["sections"]) == ("", [])


@pytest.mark.oracle("forky")
@pytest.mark.parametrize("file", REAL_FILES[:1] + REAL_FILES[-1:])
def test_functions_and_rows_are_those_of_readelf(file: str) -> None:
    (columns,) = embedded(unwindkit.report([file], debug=unwindkit.DebugFiles(links=False)))
    expected = sorted(_readelf_rows(run_oracle("readelf", "-wNF", file)))
    found = [
        (one["start"], one["size"], [(offset, _cfa(text)) for offset, text in one["rows"]])
        for one in functions(columns)
        if ".eh_frame" in one["sources"]
    ]
    assert len(found) > 100
    assert found == expected


def _readelf_rows(text: str) -> Iterator[tuple[int, int, list[tuple[int, str]]]]:
    """Start and size of each FDE, and its rows: offset and CFA. For one without instructions only its CIE has a row."""
    names = {"rsp": "sp", "rbp": "fp", "rbx": "r3"}
    cies: dict[str, list[tuple[int, str]]] = {}
    for block in text.split("\n\n"):
        head, *lines = block.strip().splitlines() or [""]
        found = [re.match(r"([0-9a-f]{16}) ([a-z]+\d*)(\S*)", line) for line in lines]
        rows = [(int(one[1], 16), names.get(one[2], one[2]) + one[3]) for one in found if one]
        if fde := re.search(r" FDE cie=(\S+) pc=([0-9a-f]+)\.\.([0-9a-f]+)$", head):
            start, end = int(fde[2], 16), int(fde[3], 16)
            own = [(pc - start, cfa) for pc, cfa in rows if pc < end]
            yield start, end - start, own or cies[fde[1]]
        elif " CIE " in head:
            cies[head.split()[0]] = rows


def _cfa(text: str) -> str:
    """As in readelf, which names no expression."""
    cfa = text.partition(" ")[0].removeprefix("cfa=")
    return "exp" if cfa.startswith("exp(") else cfa


def test_code_is_counted_as_pc_by_pc() -> None:
    """Every byte of the executable sections, by the rows and the refusals of the library's table."""
    file = REAL_FILES[0]
    found = read_file(file, Raw(), BY_LINKS)
    table = unwindkit.read_elf(file, "all")
    described = {pc for one in table for pc in range(one.start, one.start + one.size)}
    refusals = unwindkit.to_sframe(table, section_address=table.load_address)[1]
    refused = {pc: one.reason.name for one in refusals for pc in range(one.start, one.end)}
    for section in unwindkit.open_elf(file).sections:
        if not section.is_code:
            continue
        (one,) = (one for one in found.code if one.name == section.name)
        pcs = range(section.address, section.end_address)
        if section.name.startswith(".plt"):
            continue  # may have rows that no call frame information gives
        assert one.size == len(pcs)
        assert one.refused == Counter(refused[pc] for pc in pcs if pc in refused)
        assert one.expressed == sum(pc in described and pc not in refused for pc in pcs)
        assert one.padding + one.bare == sum(pc not in described for pc in pcs)
    assert sum(one.expressed for one in found.code) > 1000


def test_sizes_are_those_of_the_sections_that_are_written(tmp_path: Path) -> None:
    file = REAL_FILES[0]
    shown = cells(unwindkit.report([file]), "Size of an .sframe, against the call frame information")
    frames = sum(one.size for one in unwindkit.open_elf(file).sections if one.name == ".eh_frame")
    assert shown[".eh_frame"] == [f"{frames:,}", "1.00"]
    for version in (2, 3):
        for compact in ("none", "share", "merge"):
            out = tmp_path / f"{version}{compact}"
            unwindkit.write_sframe_section(file, out, 0, version, compact)
            size = out.stat().st_size
            assert shown[f"SFrame {version}, {compact}"] == [f"{size:,}", f"{size / frames:.2f}"]


def test_runs_are_counted_by_the_functions_that_share_them() -> None:
    file = REAL_FILES[0]
    page = unwindkit.report([file])
    uses = Counter(unwindkit.read_elf(file).functions.run.tolist())
    shown = cells(page, "Sharing of rows")
    numbers = {name: tuple(int(one.replace(",", "")) for one in counts) for name, counts in shown.items()}
    # Rows of a PLT may be added to those of the file.
    assert abs(sum(functions_ for _, functions_ in numbers.values()) - sum(uses.values())) <= 3
    singles = sum(count == 1 for count in uses.values())
    assert abs(numbers["1"][1] - singles) <= 3
    for name, (runs, sharing) in numbers.items():
        least, _, most = name.partition(" to ")
        assert int(least.replace(",", "")) * runs <= sharing <= int((most or least).replace(",", "")) * runs


def test_a_page_has_all_that_it_needs_and_allows_nothing_else() -> None:
    page = unwindkit.report([REAL_FILES[0]])
    seen = _Seen(page)
    tags = [tag for tag, _ in seen.tags]
    assert not TAGS_WITH_ADDRESSES & set(tags)
    assert not [attributes for _, attributes in seen.tags if {"src", "href", "style"} & attributes.keys()]
    assert "url(" not in page
    assert "@import" not in page
    *data, script = seen.scripts
    assert len(data) == 1
    policy = next(
        attributes["content"] for tag, attributes in seen.tags if tag == "meta" and "http-equiv" in attributes
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert len([one for one in seen.tags if one[0] == "svg"]) == page.count("</title>") - 1


def test_names_are_text_whatever_they_contain(tmp_path: Path) -> None:
    names = [*(name.encode() for name in HOSTILE), b"\xff\xfe"]
    file = written(tmp_path, program(names), "<b>&.so")
    page = unwindkit.report([file, file])
    page.encode("utf-8")
    seen = _Seen(page)
    assert {tag for tag, _ in seen.tags} & {"img", "b"} == set()
    assert len(seen.scripts) == 3
    columns, _ = embedded(page)
    assert functions(columns)[0]["symbol"] == HOSTILE[0]
    assert columns["file"] == str(file)
    assert seen.texts.count(f"1: {file}") > 3
    assert not [text for text in (*seen.texts, *seen.scripts) if not text.replace("\n", "").isprintable()]


def test_names_that_are_not_visible_are_escaped(tmp_path: Path) -> None:
    for name, shown in ((b"\x07bell", r"\x07bell"), ("\u202etxt".encode(), r"\u202etxt"), (b"\xff", r"\udcff")):
        (columns,) = embedded(unwindkit.report([written(tmp_path, program([name]))]))
        assert functions(columns)[0]["symbol"] == shown


def test_several_files_are_beside_each_other(tmp_path: Path) -> None:
    first, second = written(tmp_path, linked_elf(), "first"), written(tmp_path, tiny_elf(), "second")
    page = unwindkit.report([first, second])
    one, two = embedded(page)
    assert [columns["file"] for columns in (one, two)] == [str(first), str(second)]
    assert (one["sources"], two["sources"]) == ([".eh_frame", ".sframe", "PLT code"], [".eh_frame", "PLT code"])
    heads = re.findall(r"<th scope=col class=file>(.*?)</th>", page)
    assert heads == [f"1: {first}", f"2: {second}"]


def test_functions_of_a_relocatable_file_are_in_their_sections(tmp_path: Path) -> None:
    (columns,) = embedded(unwindkit.report([written(tmp_path, tiny_elf(e_type=ET_REL))]))
    # Without relocations the FDEs are relative to where .eh_frame is laid out, in no section.
    assert {one["section"] for one in functions(columns)} == {""}
    relocatable = [path for path in ("/usr/lib/x86_64-linux-gnu/crt1.o", "/usr/lib64/crt1.o") if Path(path).exists()]
    for path in relocatable:
        (columns,) = embedded(unwindkit.report([path]))
        found = functions(columns)
        assert (found[0]["section"], found[0]["start"], found[0]["name"]) == (".text", 0, "_start")


def test_inputs_of_other_kinds(tmp_path: Path) -> None:
    table = unwindkit.read_elf(linked_elf())
    text = written(tmp_path, b"MODULE Linux x86_64 0 a\n" + unwindkit.to_stack_cfi(table)[0], "a.sym")
    raw = written(tmp_path, CFI.data, "raw")
    (columns,) = embedded(unwindkit.report([text]))
    assert [one["size"] for one in functions(columns)] == [0x40, 0x40]
    page = unwindkit.report([raw], source="eh_frame", address=0x2000, architecture="aarch64")
    assert embedded(page)[0]["sources"] == [".eh_frame", "PLT code"]
    assert "The input has no code." in page


def test_a_section_that_is_malformed_is_part_of_the_report(tmp_path: Path) -> None:
    broken = Content(".eh_frame", b"\x08\0\0\0\0\0\0\0", flags=2)
    data = tiny_elf(CODE, broken, Content(".debug_frame", b"", flags=0))
    page = unwindkit.report([written(tmp_path, data)])
    assert embedded(page)[0]["functions"]["size"] == []
    assert "<span class=mark>unreadable</span> .eh_frame: " in page


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    bare = written(tmp_path, tiny_elf(CODE), "bare")
    archive = written(tmp_path, b"!<arch>\n", "a.a")
    with pytest.raises(ParseError, match="has no call frame information"):
        unwindkit.report([bare])
    with pytest.raises(ParseError, match="archive"):
        unwindkit.report([archive])
    with pytest.raises(BuildError, match="at least one file"):
        unwindkit.report([])
    with pytest.raises(BuildError, match="is not one of"):
        unwindkit.report([bare], source="debug_line")
    out = tmp_path / "out.html"
    says = "has no call frame information: neither .eh_frame nor .debug_frame; a debug file may have it: --debug-file"
    refuses(bare, "report", bare, "-o", out, says=says)
    assert usage_error(run("report", bare, "-o", bare)) == f"unwindkit report: error: {bare} is the input file"
    for words in (("-", "-"), (str(bare), str(bare), "--debug-file", "x")):
        assert usage_error(run("report", *words, "-o", out))


def test_the_command_writes_the_same_page_to_a_file_and_to_standard_output(tmp_path: Path) -> None:
    file, out = written(tmp_path, linked_elf()), tmp_path / "out.html"
    done = run("report", file, "-o", out)
    page = out.read_text(encoding="utf-8")
    assert (done.returncode, done.stdout) == (DONE, "")
    assert done.stderr == f"{out}: 1 file, {len(page.encode()):,} bytes\n"
    again = run("report", file, "-o", "-", "--quiet")
    assert (again.returncode, again.stdout, again.stderr) == (DONE, page, "")
    assert page == unwindkit.report([file])


@pytest.mark.parametrize("file", REAL_FILES[-2:])
def test_the_size_of_a_page_follows_that_of_its_table(file: str) -> None:
    """At most 50 bytes for each function, beside the frame: libLLVM's 94,994 then take less than 5 MB."""
    page = unwindkit.report([file])
    assert len(page) < 40_000 + 50 * len(embedded(page)[0]["functions"]["size"])


# Keys as a user presses them; the page's answer is its document title.
KEYS = """
<script>
const key = (name) => (document.activeElement || document.body).dispatchEvent(
  new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const timer = setInterval(() => {
  if (!document.querySelector("#lines button")) return;
  clearInterval(timer);
  key("/");
  const seen = [document.activeElement.id];
  document.activeElement.value = "WANTED";
  key("Enter");
  seen.push(document.getElementById("found").textContent, document.activeElement.textContent);
  seen.push(document.activeElement.getAttribute("aria-expanded"));
  const lines = () => [...document.querySelectorAll("tr.detail")].map((one) => one.textContent);
  seen.push(lines().filter((one) => one.startsWith("0x")));
  document.activeElement.click();
  seen.push(lines().length);
  key("Escape");
  seen.push(document.activeElement.id);
  key("Escape");
  key("ArrowDown");
  key("ArrowDown");
  seen.push(document.activeElement.textContent);
  document.querySelector("[data-key=size]").click();
  seen.push(document.querySelector("[aria-sort]").getAttribute("aria-sort"));
  document.title = JSON.stringify(seen);
}, 20);
</script>
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed (apt-get install chromium)")
def test_the_table_is_searched_and_opened_by_keys(tmp_path: Path) -> None:
    page = unwindkit.report([written(tmp_path, linked_elf())])
    # The page's own policy allows no further script.
    test = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page) + KEYS.replace("WANTED", f"{START:#x}")
    shown = written(tmp_path, test.encode(), "test.html")
    switches = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = f"--disable-component-update --disable-sync --user-data-dir={tmp_path / 'profile'}"
    command = ["chromium", *switches.split(), *more.split(), "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([*command, f"file://{shown}"], capture_output=True, text=True, check=True, timeout=120)
    title = re.search(r"<title>(\[.*?)</title>", done.stdout)
    assert title is not None
    rows = [f"{START:#x}: cfa=sp+8 ra=c-8", f"{START + 1:#x}: cfa=sp+16 ra=c-8"]
    assert json.loads(title[1]) == [
        "search",
        "1 of 2 functions",
        f"{START:#x}",
        "true",
        rows,
        0,
        "search",
        f"{START + 0x40:#x}",
        "ascending",
    ]
