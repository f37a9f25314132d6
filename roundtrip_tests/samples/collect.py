"""The samples: ELF files, archives, core files, minidumps, symbol files, assembler text out of other projects' tests.

Strategy: source packages are read as streams, and nothing of them is run. What a package holds compressed is
decompressed. LLVM's tests describe most malformed files as text: yaml2obj makes files of their YAML, with the macros of
their RUN lines, and llvm-mc of their assembler. Equal files are one sample. Samples are written to a folder, once.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import lzma
import re
import shlex
import subprocess
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..support.oracles import oracle_command

TEST_FOLDER = re.compile(r"(?i)(^|/)[^/]*(test|inputs|fuzz|corpus|regress)[^/]*/")
MAX_SIZE = 8 << 20
# Binary files of other kinds, which each command refuses: this many of each package.
MAX_OTHERS = 60
TEXT_START = 512
MAGICS = {b"\x7fELF": "elf", b"!<arch>\n": "archive", b"!<thin>\n": "archive", b"MDMP": "minidump", b"MODULE ": "sym"}
OTHER, DIRECTIVES = "other", "directives"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".gz": lambda data: zlib.decompress(data, 31),
}
YAML = re.compile(rb"^--- !(ELF|Arch|minidump|dxcontainer|COFF|mach-o|fat-mach-o)", re.MULTILINE)
RUN = re.compile(r"RUN:(.*)")
# Assembler with debugging information in it, which is made malformed on purpose; the other tests are of instructions.
ASSEMBLER = re.compile(r"/llvm/test/(tools|DebugInfo|Object)/.*\.s$")
DEFAULT_TRIPLE = "x86_64-linux-gnu"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file in the folder of samples; `origin` is its path in the source package `source`."""

    source: str
    origin: str
    kind: str
    path: Path

    @property
    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class Found:
    """Bytes of a test, before it is known whether they are new."""

    origin: str
    data: bytes


def collect(sources: Iterable[Path], folder: Path, *, with_llvm: bool) -> list[Sample]:
    """The samples of the archives of sources, in `folder`; those of an archive that was read before are not read again.
    With `with_llvm` the programs of the suite `sid-llvm` make files of LLVM's tests."""
    samples, seen = [], set()
    for source in sources:
        listed = folder / f"{source.name}.json"
        if not listed.exists():
            rows = list(_write(_kinds(_files(source, with_llvm)), folder / source.name.split("_")[0]))
            listed.write_text(json.dumps(rows))
        for origin, kind, name in json.loads(listed.read_text()):
            if name not in seen:
                seen.add(name)
                path = folder / source.name.split("_")[0] / name
                samples.append(Sample(source.name.split("_")[0], origin, kind, path))
    return samples


def kind_of(found: Found) -> str | None:
    """What a file is, by its first bytes; None: text that is no input of any command."""
    for magic, kind in MAGICS.items():
        if found.data.startswith(magic):
            return kind
    if b"\0" in found.data[:TEXT_START]:
        return OTHER
    is_gas = found.origin.endswith(".s") and b".cfi_" in found.data
    return DIRECTIVES if is_gas else None


def _kinds(files: Iterable[Found]) -> Iterator[tuple[Found, str]]:
    counts: Counter[str] = Counter()
    for found in files:
        kind = kind_of(found)
        if kind is None or not 0 < len(found.data) <= MAX_SIZE:
            continue
        counts[kind] += 1
        if kind != OTHER or counts[kind] <= MAX_OTHERS:
            yield found, kind


def _write(files: Iterable[tuple[Found, str]], folder: Path) -> Iterator[tuple[str, str, str]]:
    folder.mkdir(parents=True, exist_ok=True)
    for found, kind in files:
        name = hashlib.sha256(found.data).hexdigest()[:16]
        (folder / name).write_bytes(found.data)
        yield found.origin, kind, name


def _files(source: Path, with_llvm: bool) -> Iterator[Found]:
    """The files of an archive's test folders, unpacked, and those made of their text."""
    texts = []
    with tarfile.open(source, "r|*") as archive:
        for member in archive:
            if not member.isfile() or not TEST_FOLDER.search(member.name) or not 0 < member.size <= MAX_SIZE:
                continue
            file = archive.extractfile(member)
            found = _unpacked(Found(member.name, file.read() if file else b""))
            if YAML.search(found.data) or ASSEMBLER.search(found.origin):
                texts.append(found)
            yield found
    if with_llvm:
        with ThreadPoolExecutor(2) as pool:
            for made in pool.map(_made, texts):
                yield from made


def _unpacked(found: Found) -> Found:
    """The content of a compressed file; the file itself, if it is none or is broken."""
    for suffix, decompress in PACKED.items():
        if found.origin.endswith(suffix):
            try:
                return Found(found.origin.removesuffix(suffix), decompress(found.data))
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
                return found
    return found


def _made(text: Found) -> list[Found]:
    """The files that a test of LLVM makes of its own text."""
    program = "llvm-mc" if text.origin.endswith(".s") else "yaml2obj"
    command, found = oracle_command(f"{program}-22", suite="sid-llvm"), []
    for arguments in dict.fromkeys(_runs(text.data.decode(errors="replace"), program)):
        # With `-o -` some of these programs print beside the file.
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out")
            # Some tests are of endless macros.
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([*command, *arguments, "-", "-o", out], input=text.data, capture_output=True, timeout=60)
            if out.exists() and out.stat().st_size <= MAX_SIZE:
                found.append(Found(f"{text.origin} {' '.join(arguments)}".strip(), out.read_bytes()))
    return found


def _runs(text: str, program: str) -> Iterator[tuple[str, ...]]:
    """The options that choose and change what is made, of each command of the RUN lines."""
    for line in re.sub(r"\\\n[#/; ]*(RUN:)?", " ", text).splitlines():
        match = RUN.search(line)
        for command in re.split(r"\||&&|;", match[1]) if match else ():
            try:
                words = shlex.split(command)
            except ValueError:
                continue
            if program in words:
                yield _options(words, program)
    if program == "llvm-mc":
        yield ("-filetype=obj", f"-triple={DEFAULT_TRIPLE}")


def _options(words: list[str], program: str) -> tuple[str, ...]:
    kept = []
    for at, word in enumerate(words):
        name = word.lstrip("-").split("=")[0]
        if program == "yaml2obj" and (name == "docnum" or word.startswith("-D")):
            kept += [word] if "=" in word or word != "-D" else words[at : at + 2]
        elif program == "llvm-mc" and name in (
            "triple",
            "mattr",
            "dwarf-version",
            "dwarf64",
            "compress-debug-sections",
        ):
            kept += [word] if "=" in word or name == "dwarf64" else words[at : at + 2]
    if program == "llvm-mc":
        kept.insert(0, "-filetype=obj")
    return tuple(kept)
