"""What other programs say about addresses: addr2line of binutils, llvm-symbolizer and eu-addr2line.

Strategy: all addresses of a file go to one process. Two of them read a copy of the file whose symbol tables are hidden:
they would name the outermost function by the symbol table, where aliases and folded functions have other names than
the one in the debugging information. addr2line answers nothing without a symbol table, and prefers DWARF's name.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from ..oracles import PREFIXES, OracleError, oracle_command
from .records import Frame

Chains = list[tuple[Frame, ...]]
_DISCRIMINATOR = re.compile(r" \(discriminator \d+\)$")
_LIMIT = 900  # seconds: ceph-mds takes a minute
_INLINED = re.compile(r" inlined at .* in .*$")  # elfutils, after a name
_UNKNOWN = ("??", "")
_NO_TYPE = 0x6FFFFFF0  # of a section, in the range for operating systems, that none uses
_REPEATED = re.compile(r"^([^/].*?)/\1/")


@dataclass(frozen=True, slots=True)
class Referee:
    """A program; `command` is given the file and reads addresses from standard input, `parse` gets its output."""

    name: str
    command: Callable[[Path], list[str | Path]]
    parse: Callable[[str], Chains]
    needs_symbols: bool = False


def ask(referee: Referee, path: Path, addresses: Sequence[int]) -> Chains:
    """The frames at each address of a file, innermost first; () if the referee knows none."""
    text = "".join(f"{address:#x}\n" for address in addresses)
    command = ["nice", "timeout", str(_LIMIT), *referee.command(path)]
    environment = os.environ | {"LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
    chains = referee.parse(done.stdout)
    # eu-addr2line also ends with 1 if it has no answer for one of the addresses.
    if len(chains) != len(addresses):
        raise OracleError(
            f"{referee.name} gave {len(chains)} answers to {len(addresses)} addresses: {done.stderr[:500]}"
        )
    return _demangled(chains)


def _demangled(chains: Chains) -> Chains:
    """What a referee's own demangler cannot read, as c++filt demangles it."""
    mangled = [one.function for frames in chains for one in frames if one.function.startswith(("_Z", "_R"))]
    if not mangled:
        return chains
    plain = demangle(mangled)
    return [tuple(replace(one, function=plain.get(one.function, one.function)) for one in frames) for frames in chains]


def hide_symbols(path: Path, folder: Path) -> Path:
    """A copy of an ELF file whose symbol tables are of a type that no program reads."""
    copy = folder / path.name
    shutil.copyfile(path, copy)
    copy.chmod(0o644)
    with path.open("rb") as file, copy.open("r+b") as changed:
        elf = ELFFile(file)
        for index, section in enumerate(elf.iter_sections()):
            if section["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM"):
                changed.seek(elf["e_shoff"] + index * elf["e_shentsize"] + 4)
                changed.write(_NO_TYPE.to_bytes(4, "little" if elf.little_endian else "big"))
    return copy


def parse_addr2line(text: str) -> Chains:
    """The output of addr2line -a -f -i, of binutils or elfutils."""
    chains = Chains()
    frames = list[Frame]()
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("0x"):
            chains.append(())
            frames = []
            continue
        frames.append(_frame(line, next(lines, "")))
        chains[-1] = _known(frames)
    return chains


def _frame(function: str, place: str) -> Frame:
    file, _, line = _place(_DISCRIMINATOR.sub("", place))
    function = _INLINED.sub("", function)
    name = "" if function in _UNKNOWN else function
    return Frame(name, normalize_path(file), int(line) if line.isdecimal() else 0)


def _place(text: str) -> tuple[str, str, str]:
    # elfutils prints FILE:LINE:COLUMN, binutils FILE:LINE or FILE:?.
    match = re.fullmatch(r"(.*?):(\d+|\?)(?::\d+)?", text)
    return (match[1], ":", match[2]) if match else (text, ":", "")


def parse_llvm_symbolizer(text: str) -> Chains:
    """The output of llvm-symbolizer --output-style=JSON."""
    return [_known([_llvm_frame(one) for one in json.loads(line).get("Symbol", [])]) for line in text.splitlines()]


def _llvm_frame(said: dict[str, Any]) -> Frame:
    return Frame(said["FunctionName"], normalize_path(said["FileName"]), int(said["Line"]))


def _known(frames: list[Frame]) -> tuple[Frame, ...]:
    return tuple(frames) if any(one.function or one.file for one in frames) else ()


def normalize_path(path: str) -> str:
    """The path without `.`, `..` and double slashes; "" if it is unknown.

    `a/a/f.c` is `a/f.c`: where the compilation directory is a relative path, directory 0 of a line table of version 5
    repeats it, and some programs put one before the other.
    """
    return "" if path in _UNKNOWN else _REPEATED.sub(r"\1/", posixpath.normpath(path))


def _addr2line(path: Path) -> list[str | Path]:
    with path.open("rb") as file:
        prefix = PREFIXES.get(ENUM_E_MACHINE[ELFFile(file)["e_machine"]], "")
    return [*oracle_command(f"{prefix}addr2line"), "-a", "-f", "-i", "-C", "-e", path]


def _llvm(path: Path) -> list[str | Path]:
    program = oracle_command("llvm-symbolizer-22", "sid-llvm")
    return [*program, "--inlines", "--demangle", "--no-debuginfod", "--output-style=JSON", f"--obj={path}"]


def _elfutils(path: Path) -> list[str | Path]:
    return ["eu-addr2line", "-a", "-f", "-i", "-C", "-e", path]


ADDR2LINE = Referee("addr2line", _addr2line, parse_addr2line, needs_symbols=True)
LLVM_SYMBOLIZER = Referee("llvm-symbolizer", _llvm, parse_llvm_symbolizer)
EU_ADDR2LINE = Referee("eu-addr2line", _elfutils, parse_addr2line)
REFEREES = (ADDR2LINE, LLVM_SYMBOLIZER, EU_ADDR2LINE)


def executable_ranges(path: Path) -> Iterator[tuple[int, int]]:
    """(address, size) of each executable section; a debug file has the same."""
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section["sh_flags"] & 0x4 and section["sh_size"]:  # SHF_EXECINSTR
                yield section["sh_addr"], section["sh_size"]


def load_address(path: Path) -> int:
    """The address of the first PT_LOAD segment, which addresses in a symbol file are relative to."""
    with path.open("rb") as file:
        return int(next(ELFFile(file).iter_segments("PT_LOAD"))["p_vaddr"])


def demangle(names: Iterable[str]) -> dict[str, str]:
    """The demangled name of each, by c++filt: C++, Rust and D."""
    wanted = list(dict.fromkeys(names))
    # Names of templates of boost::spirit are nested deeper than c++filt allows.
    command = ["nice", *oracle_command("c++filt"), "--no-recurse-limit"]
    done = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=True)
    return dict(zip(wanted, done.stdout.splitlines(), strict=True))


def aliases(path: Path) -> dict[str, frozenset[str]]:
    """For each symbol of a file, the names of all symbols that have its address, demangled."""
    by_address: dict[int, set[str]] = {}
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM"):
                continue
            for symbol in section.iter_symbols():
                if symbol["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC", "STT_NOTYPE") and symbol["st_value"]:
                    by_address.setdefault(symbol["st_value"], set()).add(symbol.name)
    together = [names for names in by_address.values() if len(names) > 1]
    plain = demangle(name for names in together for name in names)
    found: dict[str, frozenset[str]] = {}
    for names in together:
        demangled = frozenset(plain[name] for name in names)
        for name in demangled:
            found[name] = found.get(name, frozenset()) | demangled
    return found
