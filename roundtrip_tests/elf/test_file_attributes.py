"""What a file has besides its bytes, after each command that rewrites it: capabilities, ACLs, attributes, owner, mode,
links, holes; and files that are being executed or changed meanwhile."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
import unwindkit

from ..support.commands import DONE, WRONG
from ..support.commands import unwindkit as command

# VFS_CAP_REVISION_2 with the effective bit; cap_net_raw permitted (linux/capability.h).
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")
# Version 2; the owner, the user 1234, the group, the mask and others (linux/posix_acl_xattr.h).
ACL = bytes.fromhex("0200000001000700ffffffff02000500d204000004000500ffffffff10000500ffffffff20000500ffffffff")
ATTRIBUTES = {"security.capability": CAPABILITY, "system.posix_acl_access": ACL, "user.origin": b"here"}
REWRITES = {
    "sframe": ("sframe", "--in-place"),
    "lief": ("sframe", "--in-place", "--writer", "lief"),
    "edit": ("edit", "--in-place", "--drop", "main"),
}


def with_attributes(path: Path) -> None:
    for name, value in ATTRIBUTES.items():
        try:
            os.setxattr(path, name, value)
        except OSError as error:
            pytest.skip(f"{name}: {error.strerror}: this user or file system cannot have it")


def attributes_of(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.mark.parametrize("name", REWRITES)
def test_attributes_stay(name: str, built_program: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(built_program.read_bytes())
    program.chmod(0o750)
    with_attributes(program)
    before = attributes_of(program)
    assert before.keys() == ATTRIBUTES.keys()
    about = program.stat()
    first, *options = REWRITES[name]
    assert command(first, program, *options).returncode == DONE
    assert attributes_of(program) == before
    after = program.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (about.st_mode, about.st_uid, about.st_gid)
    assert after.st_ino != about.st_ino
    if name != "edit":
        assert command("remove", program, "--in-place").returncode == DONE
        assert attributes_of(program) == before


def test_signatures_do_not_stay(built_program: Path, tmp_path: Path) -> None:
    """They are of the old content."""
    program = tmp_path / "program"
    program.write_bytes(built_program.read_bytes())
    try:
        os.setxattr(program, "security.ima", b"\x04\x04" + bytes(32))
    except OSError as error:
        pytest.skip(f"security.ima: {error.strerror}: this user or file system cannot have it")
    done = command("sframe", program, "--in-place")
    assert "warning: the file is signed (security.ima)" in done.stderr
    assert attributes_of(program) == {}


def test_a_symbolic_link_is_followed_and_stays(built_program: Path, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(built_program.read_bytes())
    (tmp_path / "link").symlink_to("program")
    assert command("sframe", tmp_path / "link", "--in-place").returncode == DONE
    assert (tmp_path / "link").readlink() == Path("program")
    assert unwindkit.open_elf(tmp_path / "program").named(".sframe")


def test_another_name_of_one_file_keeps_the_old_content(built_program: Path, tmp_path: Path) -> None:
    """One file given by one of its names: the other name is not that of the new file. Trees are different (batches)."""
    program, other = tmp_path / "program", tmp_path / "other"
    program.write_bytes(built_program.read_bytes())
    other.hardlink_to(program)
    assert command("sframe", program, "--in-place").returncode == DONE
    assert other.read_bytes() == built_program.read_bytes()
    assert unwindkit.open_elf(program).named(".sframe")


def test_a_program_that_is_being_executed(built_program: Path, tmp_path: Path) -> None:
    """It is replaced by a rename, which the kernel allows (a write is ETXTBSY); the process keeps the old file."""
    program = tmp_path / "sleeper"
    (tmp_path / "a.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("up"); fflush(stdout); return getchar(); }\n'
    )
    subprocess.run(["gcc", "-O2", "-o", program, tmp_path / "a.c"], check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert command("sframe", program, "--in-place").returncode == DONE
        process.communicate("A")
    assert process.returncode == ord("A")
    assert unwindkit.open_elf(program).named(".sframe")


def test_holes_stay(built_program: Path, tmp_path: Path) -> None:
    """An appended archive with a hole of 64 MiB."""
    program = tmp_path / "program"
    program.write_bytes(built_program.read_bytes())
    with program.open("r+b") as file:
        file.seek(64 << 20, os.SEEK_END)
        file.write(b"end")
    assert program.stat().st_blocks * 512 < 1 << 20
    done = command("sframe", program, "-o", tmp_path / "out")
    assert done.returncode == DONE, done.stderr
    assert (tmp_path / "out").stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / "out").read_bytes().endswith(b"end")


def test_a_file_that_is_replaced_while_it_is_read(built_program: Path, tmp_path: Path) -> None:
    """What was opened is read to its end."""
    program, other = tmp_path / "program", tmp_path / "other"
    program.write_bytes(built_program.read_bytes())
    other.write_bytes(b"another file")
    expected = unwindkit.read_elf(program)
    image = unwindkit.open_elf(program)
    other.rename(program)
    assert bytes(image.data) == built_program.read_bytes()
    assert len(unwindkit.read_elf(bytes(image.data))) == len(expected)


def test_a_file_whose_bytes_change_while_it_is_read(built_program: Path, tmp_path: Path) -> None:
    """Its call frame information is overwritten again and again, at the same place: a result, or an error by name; the
    destination is a whole file."""
    program, out = tmp_path / "program", tmp_path / "out"
    old = built_program.read_bytes()
    program.write_bytes(old)
    section = next(one for one in unwindkit.open_elf(program).sections if one.name == ".eh_frame")
    end = threading.Event()

    def change() -> None:
        with program.open("r+b", buffering=0) as file:
            while not end.wait(0.001):
                for data in (b"\xff" * section.size, old[section.file_offset : section.file_offset + section.size]):
                    os.pwrite(file.fileno(), data, section.file_offset)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        outcomes = [command("sframe", program, "-o", out) for _ in range(2)]
    finally:
        end.set()
        thread.join()
    for done in outcomes:
        assert done.returncode in (DONE, WRONG), done.stderr
        assert "Traceback" not in done.stderr
    assert not out.exists() or unwindkit.open_elf(out).named(".sframe")
    assert sorted(path.name for path in tmp_path.iterdir() if path != out) == ["program"]
