"""Fuzz targets that are whole files: ELF files, archives, core files, minidumps, and what is written of them."""

from __future__ import annotations

import io
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import unwindkit
from unwindkit import FormatError, Places
from unwindkit.converters.elf.image import ElfImage
from unwindkit.corpus.formats import FORMATS, Options, make_case
from unwindkit.corpus.write import file_bytes

from ..elf.test_archives import archive
from ..elf.test_hostile_objects import R_64, Rela, tiny_object
from ..support.made.cores import Mapped, core_of
from ..support.made.debug_entries import NO_LINKS
from ..support.made.sframe_seeds import sframe_seeds
from ..support.programs.minidumps import CONTEXTS, Module, State, minidump
from ..support.tiny_elf import CFI, CODE, COMPRESSED, STRTAB, SYMTAB, Content, patched, tiny_elf, tiny_elf32
from .section_targets import INFO, entry_file, entry_seeds
from .seeds import Seed, elf_places, minidump_places, words
from .target import Read, Target

NOTE = 7
PCS = [0, 0x1000, 0x1010, 0x2000, (1 << 64) - 1]


def elf_seed(data: bytes | bytearray) -> Seed:
    """A well-formed ELF file, with the places of its headers' fields."""
    return Seed(bytes(data), elf_places(bytes(data)), "file", "little" if data[5] == 1 else "big")


def _with_symbols() -> bytearray:
    """A program with two functions in its symbol table."""
    symbols = b"".join(
        struct.pack("<IBBHQQ", name, 0x12, 0, 1, address, 0x40) for name, address in ((1, 0x1000), (3, 0x1040))
    )
    table = Content(".symtab", bytes(24) + symbols, SYMTAB, flags=0)
    data = tiny_elf(CODE, CFI, table, Content(".strtab", b"\0f\0g\0", STRTAB, flags=0))
    return patched(data, section=3, sh_link=4, sh_entsize=24)


def _with_notes() -> bytearray:
    notes = struct.pack("<III", 4, 8, 3) + b"GNU\0" + bytes(range(8))
    notes += struct.pack("<III", 4, 16, 5) + b"GNU\0" + struct.pack("<IIII", 0xC0000002, 4, 3, 0)
    return tiny_elf(CODE, CFI, Content(".note.gnu.build-id", notes, NOTE))


def _compressed() -> bytearray:
    header = struct.pack("<IIQQ", 1, 0, len(CFI.data), 8)
    compressed = Content(".eh_frame", header + zlib.compress(CFI.data), flags=COMPRESSED | 2)
    return tiny_elf(
        CODE, compressed, Content(".zdebug_line", b"ZLIB" + bytes(7) + b"\x08" + zlib.compress(bytes(8)), flags=0)
    )


def _object() -> bytearray:
    return tiny_object([Rela(R_64, addend=0x40), Rela(2, 0x24, 8)], e_phnum=0, e_phoff=0)


def _elf_seeds() -> list[Seed]:
    sframe = tiny_elf(CODE, CFI, Content(".sframe", sframe_seeds()["V2-AMD64_ENDIAN_LITTLE"]))
    made: list[bytes | bytearray] = [
        tiny_elf(),
        tiny_elf32(),
        sframe,
        _with_symbols(),
        _with_notes(),
        _compressed(),
        _object(),
    ]
    return [elf_seed(data) for data in made]


def _corpus_files() -> list[Seed]:
    names = [name for name in FORMATS if name != "breakpad"]
    return [elf_seed(file_bytes(make_case(FORMATS[name], number, Options()))) for name in names for number in range(3)]


def _debug_seeds() -> list[Seed]:
    return [elf_seed(entry_file(seed)) for seed in entry_seeds(INFO)]


def _dump(seed: Seed) -> object:
    return [*unwindkit.dump_sections(seed.data)]


def _symbolized(seed: Seed) -> object:
    return len(unwindkit.symbolize(seed.data, PCS, debug=NO_LINKS))


def _image(seed: Seed) -> object:
    image: ElfImage = unwindkit.open_elf(seed.data)
    found = []
    for section in image.sections:
        try:
            found.append(bytes(image.contents(section).data))
        except FormatError as error:
            found.append(str(error).encode())
    return found, len(image.sections)


ELF_READS: dict[str, Read] = {
    "open_elf": _image,
    "info": lambda seed: repr(unwindkit.info(seed.data, debug=NO_LINKS)),
    "read_elf": lambda seed: unwindkit.read_elf(seed.data, debug=NO_LINKS),
    "symbolize": _symbolized,
}


# --- what is written --------------------------------------------------------------------------------------------------


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process for files that writers need."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def _stored(seed: Seed) -> Path:
    path = Path(_folder().name, "in")
    path.write_bytes(seed.data)
    return path


def _through_files(write: Callable[[Path, Path], object]) -> Read:
    def read(seed: Seed) -> object:
        first, second = _stored(seed), Path(_folder().name, "out")
        second.unlink(missing_ok=True)
        write(first, second)
        return second.read_bytes()

    return read


def _with_sframe(source: Path, target: Path) -> None:
    unwindkit.write_sframe(source, target, debug=NO_LINKS)


def _symbols(seed: Seed) -> object:
    out = io.BytesIO()
    unwindkit.write_breakpad(seed.data, out, debug=NO_LINKS)
    return out.getvalue()


WRITES: dict[str, Read] = {
    "write_sframe": _through_files(_with_sframe),
    "remove_sframe": _through_files(lambda source, target: unwindkit.remove_sframe(source, target)),
    "write_breakpad": _symbols,
    "check": lambda seed: unwindkit.check(_stored(seed), debug=NO_LINKS).sections,
    "report": lambda seed: unwindkit.report([seed.data], debug=NO_LINKS),
}

# --- archives, core files, minidumps ----------------------------------------------------------------------------------


def _archive_seeds() -> list[Seed]:
    found = []
    for word in (4, 8):
        data = archive(bytes(_object()), bytes(_object()), word)
        found.append(Seed(data, (*words(data[:160], 1), *words(data[8:128], 4)), "archive"))
    return found


NOWHERE = Places(roots=(), debug=NO_LINKS)
STACK = 0x7FF000000000


def _core_seeds() -> list[Seed]:
    found = []
    mapped = [Mapped(0x400000, 0x401000, 0, "/nowhere/a"), Mapped(0x500000, 0x501000, 1, "/nowhere/b")]
    for architecture in ("x86_64", "aarch64", "s390x"):
        data = core_of(architecture, {16: 0x400010, 7: STACK}, {STACK: bytes(64)}, mapped, {9: 0x400010, 3: 0x400040})
        seed = elf_seed(data)
        notes = words(data[:0x400], 4)
        found.append(Seed(data, seed.places + notes, "core", seed.byte_order))
    return found


def _minidump_seeds() -> list[Seed]:
    found = []
    for name, context in CONTEXTS.items():
        registers = {context.pc: 0x400010, context.sp: 0x7000}
        state = State(registers, 0x7000, bytes(range(64)), (Module("/nowhere/a", 0x400000, 0x1000, b"\1" * 20),))
        data = minidump(name, state, [0x400020])
        found.append(Seed(data, minidump_places(data), "minidump"))
    return found


def _walk(seed: Seed) -> object:
    found = unwindkit.walk_core(seed.data, places=NOWHERE, limit=100)
    return [repr(thread)[:2000] for thread in found.threads]


ELF_CODE = ("converters/elf", "schemas/elf")
FILE_TARGETS = (
    Target("elf", _elf_seeds, ELF_READS, ELF_CODE),
    Target(
        "elf-dumps",
        _corpus_files,
        {"dump": _dump},
        ("package/jobs/dump.py", "package/jobs/section_dumps.py", *ELF_CODE),
    ),
    Target(
        "elf-debug-info",
        _debug_seeds,
        {
            "read_source_map": lambda seed: unwindkit.read_source_map(seed.data, NO_LINKS),
            "symbolize": _symbolized,
        },
        ("converters/debug_info", "converters/files", *ELF_CODE),
    ),
    Target("elf-written", _elf_seeds, WRITES, ("writers",)),
    Target(
        "archives",
        _archive_seeds,
        {
            "info": lambda seed: repr(unwindkit.info(seed.data, debug=NO_LINKS)),
            "write_sframe": _through_files(_with_sframe),
        },
        ("schemas/archive.py", "converters/elf", "writers/archive.py"),
    ),
    Target(
        "core-files",
        _core_seeds,
        {"walk": _walk},
        ("converters/elf/core_file.py", "converters/walk", "schemas/core_files"),
    ),
    Target("minidumps", _minidump_seeds, {"walk": _walk}, ("converters/walk/minidump.py", "schemas/core_files")),
)
