"""The uses of a file that survive each engine's adding a section: inputs, uses, and the table of both.

Strategy: every use is tried on the original first, and a use that fails there is not counted. A result, and each copy
of it that a tool makes, must do what the original does, and still have the section's bytes where a PT_LOAD maps them.
`python -m roundtrip_tests.support.made.elf_matrix` prints the table of `docs/writing-elf.md`, as Markdown.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unwindkit.schemas.section import BuildError
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, IN_PLACE, LIEF, write_by_engines
from unwindkit.writers.elf.checks.added import check_added

from ..binutils import SFRAME, V3, chosen
from ..oracles import OracleError, absent_suite, oracle_command
from ..programs.elf_programs import CXX, LIBRARY, PROGRAM, SIZE, Built, builder, expected, headers, run, sframe, words

ENGINES = (IN_PLACE, HEADERS_KEPT, HEADERS_MOVED, LIEF)
TITLES = ("in place", "headers kept", "headers moved", "lief")


@dataclass(frozen=True, slots=True)
class Input:
    """A file and how it is used.

    `source` is its path, or the command that builds it from `code`; `lines` are for bash, where $F is the file, $D its
    folder and $X a C++ program. `prefix` is that of the tools for its machine; `size` is the section's in bytes.
    """

    name: str
    source: str
    lines: tuple[str, ...] = ("$F -a x operand",)
    code: str = PROGRAM
    prefix: str = ""
    size: int = SIZE

    @property
    def order(self) -> str:
        return ">" if self.prefix.startswith("s390x") else "<"

    @property
    def has_lines(self) -> bool:
        return self.code == PROGRAM and "-g" in self.source.split() and "-s" not in self.source.split()

    @property
    def can_abort(self) -> bool:
        return "-DABORTS" in self.source.split() and not self.prefix


def _foreign(machine: str, flags: str) -> Input:
    lines = (f"qemu-{machine} -L /usr/{machine}-linux-gnu $F -a x operand",)
    return Input(
        f"{machine}, {flags or 'PIE'}", f"{machine}-linux-gnu-gcc -g {flags}", lines, prefix=f"{machine}-linux-gnu-"
    )


def _native(name: str, flags: str, compiler: str = "gcc") -> Input:
    return Input(name, f"{compiler} -DABORTS {flags}")


def _largest_library() -> str:
    """libLLVM-14, or the largest library available."""
    found = Path("/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1")
    libraries = (one for one in found.parent.glob("*.so*") if one.is_file() and one.read_bytes()[:4] == b"\x7fELF")
    return str(found if found.exists() else max(libraries, key=lambda one: one.stat().st_size, default=found))


_LOADED = ("python3 -c 'import ctypes; print(ctypes.CDLL(\"$F\").doubled(4))'", "LD_PRELOAD=$F /bin/echo hi")
_SEARCHED, _STDCXX = "LD_LIBRARY_PATH=$D", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
_VERSIONED = "-shared -fPIC -g -Wl,-soname,libx.so,--default-symver"
_LARGE = 'python3 -c \'import ctypes; print(getattr(ctypes.CDLL("$F"), "LLVMIsMultithreaded", int)())\''
OLD_SECTION, WRITTEN = "PIE with an .sframe by ld 2.47", "PIE that we gave one before"
INPUTS = (
    _native("PIE", "-O2"),
    _native("PIE, -g", "-O2 -g"),
    _native("PIE, C++, -g", "-O2 -g", "g++"),
    _native("PIE, stripped", "-O2 -s"),
    _native("PIE, -z noseparate-code", "-O1 -g -Wl,-z,noseparate-code"),
    _native("no PIE, -g", "-no-pie -g"),
    _native("no PIE, stripped", "-no-pie -s"),
    _native("static", "-static -g"),
    _native("static, stripped", "-static -s"),
    _native("static PIE", "-static-pie -g"),
    _native("static PIE, stripped", "-static-pie -s"),
    _native("by gold", "-g -fuse-ld=gold"),
    _native("by gold, stripped", "-s -fuse-ld=gold"),
    _native("by lld", "-g -fuse-ld=lld"),
    _native("by lld, stripped", "-s -fuse-ld=lld"),
    _native("by mold", "-g -fuse-ld=mold"),
    _native("by mold, stripped", "-s -fuse-ld=mold"),
    Input(OLD_SECTION, f"gcc -DABORTS -g {SFRAME}", size=64),
    Input(WRITTEN, "gcc -DABORTS -O2 -g"),
    Input("library with symbol versions", f"gcc {_VERSIONED}", _LOADED, LIBRARY),
    Input("library, stripped", "gcc -shared -fPIC -s", _LOADED, LIBRARY),
    Input("bash", "/bin/bash", ("$F -c 'for i in 1 2; do echo $((i*21)) $(echo sub); done; exit 3'",)),
    Input("python3", "/usr/bin/python3.11", ("$F -ISc 'import json, re, ctypes; print(json.dumps(1))'",)),
    Input("libc", "/lib/x86_64-linux-gnu/libc.so.6", (f"{_SEARCHED} /bin/ls -d /", f"{_SEARCHED} $X operand")),
    Input("libstdc++", _STDCXX, (f"{_SEARCHED} $X operand", "LD_PRELOAD=$F $X operand")),
    Input("libLLVM, 110 MB", _largest_library(), (_LARGE,)),
    *(
        _foreign(machine, flags)
        for machine in ("aarch64", "s390x")
        for flags in ("", "-s", "-static", "-static -s")
    ),
)  # fmt: skip


def made(one: Input, built: Built, folder: Path) -> Path | None:
    """The input in a separate folder, under its own name; None where it is unavailable."""
    if one.source.startswith("/"):
        found = Path(one.source)
    elif any(shutil.which(name) is None for name in _programs(one)):
        return None
    elif one.name == OLD_SECTION:
        if absent_suite() is not None:
            return None
        found = built(f"{one.source} {' '.join(chosen(folder, V3))}", one.code)
    else:
        found = built(one.source, one.code)
    if not found.exists():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (found.name if one.source.startswith("/") else "libx.so" if one.code == LIBRARY else "program")
    if one.name == WRITTEN:
        write_by_engines(found, path, sframe(1000), (HEADERS_KEPT,))
    else:
        shutil.copy(found, path)
    return path


def _programs(one: Input) -> list[str]:
    """The tools needed to build and run an input."""
    compiler, *flags = one.source.split()
    linkers = [f"ld.{flag.removeprefix('-fuse-ld=')}" for flag in flags if flag.startswith("-fuse-ld=")]
    emulator = [f"qemu-{one.prefix.partition('-')[0]}"] if one.prefix else []
    return [compiler, *linkers, *emulator, "gdb", "eu-strip", "patchelf"]


# --- uses: each is the text that the original and the result must have in common ----------------------------------


def _runs(one: Input, path: Path, program: Path, is_ours: bool = True) -> str:
    """What the lines print, except what they print about the section: about ours, only if it is true."""
    texts = []
    for line in one.lines:
        status, text = run("/bin/bash", "-c", line, F=str(path), D=str(path.parent), X=str(program))
        kept = [
            found for found in text.splitlines() if not (_is_true(found) if is_ours else found.startswith("section "))
        ]
        texts += [str(status), *(found.replace(str(path.parent), "$D") for found in kept)]
    return "\n".join(texts)


def _is_true(line: str) -> bool:
    """Whether this line of a program, "section ADDRESS WORD", has the same value twice."""
    match line.split():
        case ["section", address, word]:
            return address == word
    return False


def _lines(one: Input, path: Path) -> str:
    """The location of a function according to the debug information."""
    address = next(line.split()[0] for line in run("nm", path)[1].splitlines() if "descending" in line)
    return run(f"{one.prefix}addr2line", "-fe", path, address)[1]


def backtrace(path: Path) -> str:
    """gdb's output from abort() on. Where a static PIE is loaded depends on its size: the page is left out."""
    commands = ("-ex", "set print frame-arguments none", "-ex", "run -x operand", "-ex", "backtrace")
    text = run("gdb", "-nx", "-batch", *commands, path)[1].replace(str(path), "")
    frames = [line for line in text.splitlines() if line.startswith("#")]
    return "\n".join(re.sub(r"0x[0-9a-f]+(?=[0-9a-f]{3} in)", "", line) for line in frames)


def complaints(path: Path) -> set[str]:
    """Kinds of eu-elflint's messages, except those about the two types unknown to it."""
    # What follows is the error that libelf had last, of something else.
    notes = re.compile(r"(cannot get content of note section): .*")
    unknown = ("unknown program header entry type", "'.sframe' has unsupported type")
    text = run("eu-elflint", "--gnu-ld", path)[1].replace(str(path), "")
    lines = [notes.sub(r"\1", line) for line in text.splitlines()]
    kinds = {re.sub(r"0x[0-9a-f]+|\d+", "N", line) for line in lines} - {"No errors"}
    return {one for one in kinds if not any(part in one for part in unknown)}


def _of_2_47(program: str) -> list[object] | None:
    try:
        return list(oracle_command(program))
    except OracleError:
        return None


def _copies(one: Input) -> dict[str, list[object] | None]:
    """Commands of tools that copy a file, before the output's path and the input's; None for a missing tool."""
    return {
        "strip 2.40": [f"{one.prefix}strip", "-o"],
        "objcopy 2.40": ["/bin/bash", "-c", f'{one.prefix}objcopy "$1" "$0"'],
        "strip 2.47": (command := _of_2_47(f"{one.prefix}strip")) and [*command, "-o"],
        "objcopy 2.47": (command := _of_2_47(f"{one.prefix}objcopy"))
        and ["/bin/bash", "-c", f'{" ".join(map(str, command))} "$1" "$0"'],
        "eu-strip": ["eu-strip", "-o"],
        "patchelf": ["patchelf", "--set-rpath", "/" + "long" * 80, "--output"],
    }


def _copy(command: list[object], path: Path, folder: Path) -> Path | None:
    """A tool's copy, in a separate folder; None if the tool fails or writes nothing."""
    folder.mkdir(exist_ok=True)
    out = folder / path.name
    out.unlink(missing_ok=True)
    status, _ = run(*command, out, path)
    return out if status == 0 and out.exists() else None


def _is_mapped(path: Path, address: int, data: bytes) -> bool:
    """Whether there is one `.sframe`, with those bytes, and a PT_LOAD that maps them to the address."""
    segments, sections = headers(path)
    found = [header for name, header in sections if name == ".sframe"]
    loads = [one for one in segments if one["p_type"] == "PT_LOAD"]
    if len(found) != 1:
        return False
    start = int(str(found[0]["sh_offset"]))
    return path.read_bytes()[start : start + len(data)] == data and any(
        int(str(one["p_offset"])) <= start
        and start + len(data) <= int(str(one["p_offset"])) + int(str(one["p_filesz"]))
        and start - int(str(one["p_offset"])) + int(str(one["p_vaddr"])) == address
        for one in loads
    )


USES = ("runs", "the check", "addr2line", "gdb", "eu-elflint", "strip 2.40", "objcopy 2.40", "strip 2.47",
        "objcopy 2.47", "eu-strip", "patchelf")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome for an input: for each engine why it refused, or, for each use that the original has, whether it is
    kept."""

    refused: dict[str, str] = field(default_factory=dict)
    kept: dict[str, dict[str, bool]] = field(default_factory=dict)


def row_of(one: Input, original: Path, program: Path, folder: Path) -> Row:
    """Try each engine on an input, in `folder`."""
    row, uses = Row(), dict(_uses(one, original, program, folder))
    section = sframe(one.size, order=one.order)
    for number, engine in enumerate(ENGINES):
        place = folder / str(number)
        place.mkdir()
        result = place / original.name
        try:
            report = write_by_engines(original, result, section, (engine,))
        except BuildError as error:
            row.refused[engine] = re.sub(r"\[\d+\]", "", str(error))
            continue
        told = expected(original, report, one.size, order=one.order)
        is_right = functools.partial(
            _is_mapped, address=report.address, data=words(report.address, one.size, one.order)
        )
        row.kept[engine] = {"the check": check_added(original, result, told) == ()}
        row.kept[engine] |= {use: test(result, place / "copy", is_right) for use, test in uses.items()}
    return row


Use = Callable[[Path, Path, Callable[[Path], bool]], bool]


def _uses(one: Input, original: Path, program: Path, folder: Path) -> Iterator[tuple[str, Use]]:
    """The uses that the original has, and the test of each for a result: (result, folder for a copy, does it work)."""
    text = _runs(one, original, program, is_ours=False)
    yield "runs", lambda path, _, is_right: _runs(one, path, program) == text and is_right(path)
    if one.has_lines:
        where = _lines(one, original)
        assert "descending" in where.splitlines()[0]
        assert "??" not in where
        yield "addr2line", lambda path, *_: _lines(one, path) == where
    if one.can_abort:
        frames = backtrace(original)
        assert frames.count("\n") > 2
        yield "gdb", lambda path, *_: backtrace(path) == frames
    known = complaints(original)
    yield "eu-elflint", lambda path, *_: complaints(path) <= known
    for name, command in _copies(one).items():
        if command is None or (copy := _copy(command, original, folder / "copy")) is None:
            continue
        if _runs(one, copy, program, is_ours=False) == text:
            yield name, functools.partial(_survives, one, program, text, command)


def _survives(
    one: Input,
    program: Path,
    text: str,
    command: list[object],
    path: Path,
    folder: Path,
    is_right: Callable[[Path], bool],
) -> bool:
    copy = _copy(command, path, folder)
    return copy is not None and _runs(one, copy, program) == text and is_right(copy)


# --- the table ------------------------------------------------------------------------------------------------


def _cell(row: Row, engine: str) -> str:
    """How many uses the original has, and those that were lost."""
    if engine in row.refused:
        return "-"
    lost = ", ".join(use for use, is_kept in row.kept[engine].items() if not is_kept)
    for version in ("2.40", "2.47"):
        lost = lost.replace(f"strip {version}, objcopy {version}", f"binutils {version}")
    lost = lost.replace("binutils 2.40, binutils 2.47", "binutils")
    return f"{len(row.kept[engine])}" + (f", not {lost}" if lost else "")


def table(rows: dict[str, Row]) -> str:
    """Input by engine, and use by engine, in Markdown."""
    lines = [f"| input | {' | '.join(TITLES)} |", "|---" * (1 + len(ENGINES)) + "|"]
    for name, row in rows.items():
        lines.append(f"| {name} | {' | '.join(_cell(row, engine) for engine in ENGINES)} |")
    lines += ["", f"| kept by | {' | '.join(TITLES)} |", "|---" * (1 + len(ENGINES)) + "|"]
    for use in USES:
        counts = [
            Counter(row.kept[engine][use] for row in rows.values() if use in row.kept.get(engine, ()))
            for engine in ENGINES
        ]
        lines.append(f"| {use} | {' | '.join(f'{count[True]} of {count.total()}' for count in counts)} |")
    lines += ["", "Why program headers could not be kept:", ""]
    reasons = Counter(row.refused[HEADERS_KEPT] for row in rows.values() if HEADERS_KEPT in row.refused)
    lines += [f"- {count} times: {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), {}
        (folder / "built").mkdir()
        built = builder(folder / "built")
        program = built(CXX)
        for number, one in enumerate(INPUTS):
            original = made(one, built, folder / str(number))
            if original is None:
                sys.stderr.write(f"{one.name}: cannot be had here\n")
                continue
            rows[one.name] = row_of(one, original, program, original.parent)
            shutil.rmtree(original.parent)
        sys.stdout.write(table(rows) + "\n")


if __name__ == "__main__":
    main()
