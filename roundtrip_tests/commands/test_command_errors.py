"""`python -m unwindkit` on broken input and wrong usage: exit code 2, one line, no traceback, nothing written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..support.commands import DONE, WRONG, build_program, refuses, unwindkit, usage_error
from ..support.handmade import PLAIN_CIE, Fde, eh_frame
from ..support.tiny_elf import CFI, CODE, ET_CORE, ET_REL, NOBITS, SYMTAB, Content, patched, tiny_elf, tiny_elf32

FLIPPED = bytearray(CFI.data)
FLIPPED[18 + 4] ^= 0x40  # the CIE pointer of the first FDE, after a CIE of 18 bytes

BARE = "has no call frame information: neither .eh_frame nor .debug_frame; a debug file may have it: --debug-file"
BROKEN = {
    "not ELF": (b"#!/bin/sh\n", "not an ELF file"),
    "empty": (b"", "the file is empty"),
    "cut in the header": (bytes(tiny_elf()[:40]), None),
    "cut before the section headers": (
        bytes(tiny_elf()[:0x1F0]),
        "e_shnum: 4 headers from 0x1eb reach past the file's end at 0x1f0",
    ),
    "truncated .eh_frame": (
        bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1]))),
        ".eh_frame+0x2d (file 0x1ad): entry[2].length: the length reaches past the section's end",
    ),
    "flipped .eh_frame": (
        bytes(tiny_elf(CODE, Content(".eh_frame", bytes(FLIPPED)))),
        None,
    ),
    "absurd .eh_frame": (
        bytes(tiny_elf(CODE, Content(".eh_frame", b"\xff" * 40))),
        ".eh_frame+0x0 (file 0x180): entry[0].length: the length reaches past the section's end",
    ),
    "text as .eh_frame": (
        bytes(tiny_elf(CODE, Content(".eh_frame", b"\x10\0\0\0" + b"It was a dark an"))),
        None,
    ),
    "unknown opcode": (
        bytes(tiny_elf(CODE, Content(".eh_frame", eh_frame(PLAIN_CIE, Fde(0x1000, 16, "17"))))),
        ".eh_frame+0x25 (file 0x1a5): FDE[0].instructions: the opcode is not defined",
    ),
    "unsupported machine": (
        bytes(tiny_elf(e_machine=999)),
        ".sframe: abi_arch: SFrame has no ABI for 999-64-little",
    ),
    "ELF32": (tiny_elf32(), ".sframe: abi_arch: SFrame has no ABI for x86"),
    "machine without SFrame": (bytes(tiny_elf(e_machine=243)), ".sframe: abi_arch: SFrame has no ABI for riscv64"),
    "NOBITS": (
        bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data, NOBITS))),
        ".eh_frame: sh_type: is NOBITS: this is a separate debug file; the stripped file has the bytes",
    ),
    "no .eh_frame": (bytes(tiny_elf(CODE)), BARE),
    "relocatable": (
        bytes(tiny_elf(e_type=ET_REL)),
        None,
    ),
    "core": (
        bytes(tiny_elf(e_type=ET_CORE, e_shoff=0, e_shnum=0, e_shstrndx=0)),
        BARE,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("option", ["-o", "--section", "--in-place"])
def test_broken_input(tmp_path: Path, name: str, option: str) -> None:
    data, says = BROKEN[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    arguments = [option] if option == "--in-place" else [option, tmp_path / "out"]
    if says is not None:
        refuses(path, "sframe", path, *arguments, "--report", tmp_path / "report.json", says=says)
    else:
        done = unwindkit("sframe", path, *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (WRONG, "", 1)
        assert done.stderr.startswith(f"unwindkit: {path}: ")
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", [["info"], ["sframe", "--section", "out.bin"]])
def test_input_that_is_not_there_or_a_folder(tmp_path: Path, command: list[str]) -> None:
    refuses(tmp_path / "none", *command, tmp_path / "none", says="No such file or directory")
    hint = "; a folder requires --output-dir" if command[0] == "sframe" else ""
    refuses(tmp_path, *command, tmp_path, says=f"Is a directory{hint}")


@pytest.mark.parametrize("section", [1, 2, 3])
@pytest.mark.parametrize(
    "fields",
    [{"sh_type": SYMTAB, "sh_link": 3}, {"sh_name": 0xFFFFFFFF}, {"sh_offset": 1 << 63}, {"sh_addr": (1 << 64) - 1}],
)
def test_odd_section_headers_do_not_upset_the_writer(tmp_path: Path, section: int, fields: dict[str, int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(patched(tiny_elf(), section=section, **fields))
    done = unwindkit("sframe", path, "-o", tmp_path / "out")
    assert done.returncode in (DONE, WRONG)
    assert "Traceback" not in done.stderr
    if done.returncode == WRONG:
        assert len(done.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == [path]


def test_debugging_information_alone(tmp_path: Path) -> None:
    program = build_program(tmp_path)
    path = tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, path], check=True)
    says = ".eh_frame: sh_type: is NOBITS: this is a separate debug file; the stripped file has the bytes"
    for option in ("-o", "--section"):
        refuses(path, "sframe", path, option, tmp_path / "out", says=says)


def test_section_of_a_relocatable_object_alone(tmp_path: Path) -> None:
    program, path = build_program(tmp_path), tmp_path / "main.o"
    subprocess.run(["gcc", "-c", program.with_name("main.c"), "-o", path], check=True)
    refuses(
        path,
        "sframe",
        path,
        "--section",
        tmp_path / "out",
        says="e_type: is a relocatable file: without relocations the section has no addresses",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["convert"],
        ["info"],
        ["info", "a", "b"],
        ["sframe"],
        ["sframe", "FILE"],
        ["sframe", "FILE", "-o", "out", "--in-place"],
        ["sframe", "FILE", "-o", "out", "--section", "out.bin"],
        ["sframe", "FILE", "--in-place", "--address", "0x1000"],
        ["sframe", "FILE", "--section", "out.bin", "--address", "far"],
        ["sframe", "FILE", "-o", "out", "--sframe-version", "4"],
        ["sframe", "FILE", "-o", "out", "--compact", "most"],
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str]) -> None:
    tiny, old = tmp_path / "tiny", bytes(tiny_elf())
    tiny.write_bytes(old)
    done = unwindkit(*(tiny if argument == "FILE" else argument for argument in arguments))
    assert usage_error(done).startswith("unwindkit")
    assert "Traceback" not in done.stderr
    assert tiny.read_bytes() == old


def test_an_unknown_option_is_an_error_of_its_command() -> None:
    done = unwindkit("dump", "FILE", "--sections", "--colour")
    assert usage_error(done) == "unwindkit dump: error: unrecognized arguments: --sections --colour"
