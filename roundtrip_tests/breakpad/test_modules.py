"""What identifies a file, and its symbols: MODULE ids, names, PUBLIC records, demangling.

Strategy: ids and hashes worked out by hand, and as dump_syms writes them; symbols against nm, names against c++filt.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path

import pytest
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.breakpad.demangle import demangle_names
from unwindkit.converters.breakpad.module import module_of
from unwindkit.converters.breakpad.public import public_lines
from unwindkit.converters.elf.function_symbols import function_symbols
from unwindkit.converters.elf.identity import build_id, module_name
from unwindkit.converters.elf.image import elf_of_bytes, open_elf
from unwindkit.schemas.breakpad.files import build_lines, build_record
from unwindkit.schemas.breakpad.records import Public
from unwindkit.schemas.section import BuildError

from ..cfi.test_cfi_reading import NAMED_LIBRARIES, libc
from ..support.programs.elf_programs import tool
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import ALLOC, CFI, CODE, Content, patched, tiny_elf

NOTE, DYNAMIC, STRTAB = 7, 6, 3


def note(description: bytes, kind: int = 3, name: bytes = b"GNU\0") -> bytes:
    padded = (part + bytes(-len(part) % 4) for part in (name, description))
    return struct.pack("<III", len(name), len(description), kind) + b"".join(padded)


def with_note(data: bytes, **header: int) -> bytes:
    return bytes(tiny_elf(CODE, CFI, Content(".note.gnu.build-id", data, NOTE), **header))


@pytest.mark.parametrize(
    ("description", "identifier"),
    [
        # u32, u16, u16 byte-swapped; the last eight bytes unchanged; the age.
        (bytes(range(20)), "03020100" "0504" "0706" "08090A0B0C0D0E0F" "0"),
        (bytes(range(16)), "03020100" "0504" "0706" "08090A0B0C0D0E0F" "0"),
        (b"\xab\xcd\xef\x01\x02\x03", "01EFCDAB" "0302" "0000" "0000000000000000" "0"),
    ],
)  # fmt: skip
def test_module_id_is_the_build_id_as_a_guid(description: bytes, identifier: str) -> None:
    module, code_id = module_of(elf_of_bytes("folder/a.out", with_note(note(description))))
    assert build_record(module) == f"MODULE Linux x86_64 {identifier} a.out\n".encode()
    assert code_id is not None
    assert build_record(code_id) == f"INFO CODE_ID {description.hex().upper()}\n".encode()


def test_the_build_id_among_other_notes() -> None:
    others = note(b"\1\2\3", kind=1) + note(b"owner's", kind=3, name=b"other\0")
    assert build_id(elf_of_bytes("a", with_note(others + note(b"\x11" * 20)))) == b"\x11" * 20


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 11, note(b"\x11" * 20)[:-1], struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3), note(b"")]
)
def test_notes_that_say_nothing(data: bytes) -> None:
    assert build_id(elf_of_bytes("a", with_note(data))) == b""


def test_without_a_build_id_the_code_is_hashed() -> None:
    code = bytes(index * 7 % 256 for index in range(5000))
    lanes = [code[at : at + 16] for at in range(0, 4096, 16)]
    mixed = reduce(lambda one, other: bytes(a ^ b for a, b in zip(one, other, strict=True)), lanes)
    text = Content(".text", code, flags=CODE.flags)
    module, code_id = module_of(elf_of_bytes("a", bytes(tiny_elf(text, CFI))))
    first, second, third = struct.unpack("<IHH", mixed[:8])
    assert module.id == f"{first:08X}{second:04X}{third:04X}{mixed[8:].hex().upper()}0"
    assert code_id is None
    short = Content(".text", b"\1\2\3", flags=CODE.flags)
    assert module_of(elf_of_bytes("a", bytes(tiny_elf(short, CFI))))[0].id == "00030201" + "0" * 25
    assert module_of(elf_of_bytes("a", bytes(tiny_elf(CFI))))[0].id == "0" * 33


def with_soname(name: bytes, offset: int = 1) -> bytes:
    dynamic = struct.pack("<QQQQ", 14, offset, 0, 0)  # DT_SONAME, DT_NULL
    strings = Content(".dynstr", b"\0" + name + b"\0", STRTAB)
    data = tiny_elf(CODE, CFI, strings, Content(".dynamic", dynamic, DYNAMIC, ALLOC))
    return bytes(patched(data, 4, sh_link=3, sh_entsize=16))


@pytest.mark.parametrize(
    ("soname", "name"),
    [
        (b"libx.so.1", "libx.so.1"),
        (b"deep/libx.so.1", "libx.so.1"),
        (b"..", "file.so"),
        (b"folder/", "file.so"),
        (b"", "file.so"),
        (b"two\nlines", "file.so"),
        (b"lib\xff.so", "lib\udcff.so"),
    ],
)
def test_the_name_is_the_soname_or_the_files(soname: bytes, name: str) -> None:
    assert module_name(elf_of_bytes("some/file.so", with_soname(soname))) == name


def test_a_soname_past_the_strings() -> None:
    assert module_name(elf_of_bytes("some/file.so", with_soname(b"x", offset=1 << 60))) == "file.so"
    assert module_name(elf_of_bytes("..", with_soname(b".."))) == "unnamed"


def test_architectures_have_breakpads_names() -> None:
    """All of ours, as spelled in MODULE records."""
    names = {
        "x86": "x86",
        "x86_64": "x86_64",
        "x32": "x86_64",
        "arm": "arm",
        "aarch64": "arm64",
        "aarch64_be": "arm64",
        "mips": "mips",
        "mips64": "mips",
        "ppc": "ppc",
        "ppc64": "ppc64",
        "riscv32": "riscv",
        "riscv64": "riscv64",
        "s390x": "s390x",
        "loongarch64": "loongarch64",
        "sparc64": "sparcv9",
    }
    assert {name: architecture.breakpad_module for name, architecture in ARCHITECTURES.items()} == names


@pytest.mark.oracle(*NAMED_LIBRARIES, "sid-armhf")
@pytest.mark.parametrize("suite", [*NAMED_LIBRARIES, "sid-armhf"])
def test_public_symbols_are_those_of_nm(suite: str) -> None:
    image = open_elf(libc(suite))
    found = function_symbols(image)
    assert len(found.name) > 1500
    names = defaultdict(set)
    # Of PowerPC readelf writes st_other between visibility and section.
    listed = re.sub(r" \[[^]]*\]", "", tool("readelf", "-W", "--dyn-syms", libc(suite)))
    for line in listed.splitlines():
        words = line.split()
        if len(words) > 7 and words[3] in ("FUNC", "IFUNC") and words[6] not in ("UND", "ABS"):
            is_thumb = suite == "sid-armhf" and words[3] == "FUNC"
            names[int(words[1], 16) & (~1 if is_thumb else ~0)].add(words[7].partition("@")[0])
    assert found.address.tolist() == sorted(names)
    for address, name, is_shared in zip(found.address.tolist(), found.name, found.m.tolist(), strict=True):
        assert name in names[address]
        assert is_shared == (len(names[address]) > 1)


def test_the_name_that_people_know_is_chosen() -> None:
    path = next(path for path in REAL_FILES if "libc.so.6" in path)
    image = open_elf(path)
    lines = public_lines(function_symbols(image), image.load_address).decode().splitlines()
    names = {line.split()[-1] for line in lines}
    assert {"malloc", "write", "qsort", "newlocale"} <= names
    assert not {"__write", "__newlocale"} & names
    assert any(line.startswith("PUBLIC m ") and line.endswith(" 0 write") for line in lines)


def test_a_name_that_others_see_goes_before_a_local_one(tmp_path: Path) -> None:
    source = tmp_path / "two.s"
    source.write_text(
        ".globl _start, longer\n.type longer, @function\n.type a, @function\na:\nlonger: nop\n_start: nop\n"
    )
    tool("gcc", "-nostdlib", source, "-o", tmp_path / "two")
    assert function_symbols(open_elf(tmp_path / "two")).name == ["longer"]


def test_variants_of_one_constructor_are_not_other_functions(tmp_path: Path) -> None:
    source = tmp_path / "same.s"
    groups = (("_ZN1AC1Ev", "_ZN1AC2Ev"), ("_ZN1AD0Ev", "_ZN1BD0Ev"), ("_ZN1AD1Ev",))
    lines = [f".type {name}, @function\n{name}:" for group in groups for name in (*group, "nop")]
    source.write_text("\n".join(lines).replace(".type nop, @function\nnop:", "nop") + "\n")
    tool("gcc", "-nostdlib", "-Wl,--entry=0", source, "-o", tmp_path / "same")
    found = function_symbols(open_elf(tmp_path / "same"))
    assert found.m.tolist() == [True, True, False]
    assert found.has_others.tolist() == [False, True, False]


def test_names_are_demangled_as_by_the_binutils(tmp_path: Path) -> None:
    path = next(path for path in REAL_FILES if "libstdc++" in path)
    names = sorted({name for name in function_symbols(open_elf(path)).name if name.startswith("_Z")})
    assert len(names) > 1000
    assert demangle_names(names) == filtered(names, tmp_path, "gnu-v3")


def filtered(names: Iterable[str], folder: Path, scheme: str) -> list[str]:
    """Names demangled by the system's c++filt."""
    listed = folder / "names"
    listed.write_text("".join(f"{name}\n" for name in names))
    return tool("sh", "-c", f"c++filt -i -s {scheme} < {listed}").splitlines()


RUST = {
    # legacy, with and without its hash shown
    "_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE": "core::fmt::Formatter::write_str",
    "_ZN3std2io5stdio6_print17h5a2b4c6d8e0f1a3bE": "std::io::stdio::_print",
    # v0
    "_RNvNtNtCs1234_7mycrate3foo3bar3baz": "mycrate::foo::bar::baz",
    "_RNvCskwGfYPst2Cb_3foo16example_function": "foo::example_function",
    "_RINvNtC3std3mem8align_ofjE": "std::mem::align_of::<usize>",
}


def test_names_of_rust(tmp_path: Path) -> None:
    assert demangle_names(RUST) == list(RUST.values())
    assert filtered(RUST, tmp_path, "rust") == list(RUST.values())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("main", "main"),
        ("_Z", "_Z"),
        ("_Znotmangled", "_Znotmangled"),
        ("_R", "_R"),
        ("_Rnone", "_Rnone"),
        ("_ZN1fEv@@VERS_1.0", "f()"),
        ("memcpy@GLIBC_2.2.5", "memcpy"),
        ("@odd", "@odd"),
        ("_ZN\udcff", "_ZN\udcff"),
    ],
)
def test_names_that_are_not_mangled_or_versioned(name: str, expected: str) -> None:
    assert demangle_names([name]) == [expected]


def test_many_lines_are_those_of_each_record() -> None:
    records = [Public(False, 0, 0, "a b"), Public(True, (1 << 64) - 1, 16, ""), Public(False, 0x1F, 0, "\udcff é")]
    columns = zip(*((one.m, one.address, one.parameter_size, one.name) for one in records), strict=True)
    assert build_lines(Public, *columns) == b"".join(map(build_record, records))
    assert build_lines(Public, [], [], [], []) == b""


@pytest.mark.parametrize("wrong", [("a\nb", 0), ("a\rb", 0), ("a\0", 0), ("a", -1), ("a", 1 << 64), ("\ud800", 0)])
def test_many_lines_of_what_no_line_holds(wrong: tuple[str, int]) -> None:
    name, address = wrong
    with pytest.raises(BuildError, match=r"PUBLIC\.(name|address)"):
        build_lines(Public, [False, False], [0, address], [0, 0], ["fine", name])


def test_symbols_that_no_line_holds_are_written_with_a_mark(tmp_path: Path) -> None:
    source = tmp_path / "odd.s"
    source.write_text(".globl odd, _start\n.type odd, @function\nodd: nop\n_start: nop\n")
    tool("gcc", "-nostdlib", source, "-o", tmp_path / "odd")
    tool("objcopy", "--redefine-sym", "odd=two\nlines", tmp_path / "odd")
    image = open_elf(tmp_path / "odd")
    found = function_symbols(image)
    assert any("\n" in name for name in found.name)
    assert public_lines(found, image.load_address).decode().splitlines()[0].endswith(" 0 two?lines")


def test_threads_demangle_side_by_side() -> None:
    """Each with its own buffer for what the runtime writes."""
    names = [f"_ZN{length}{'a' * length}1fEv" for length in range(1, 900)] * 3
    with ThreadPoolExecutor(4) as executor:
        found = list(executor.map(demangle_names, [names] * 8))
    expected = [f"{'a' * length}::f()" for length in range(1, 900)] * 3
    assert all(one == expected for one in found)
