"""`unwindkit sframe` on many files: each separately, paths kept, one report; and messages on files other than ELF."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from unwindkit import Failure, write_sframe_many, write_sframe_tree
from unwindkit.batches import mapped, sources
from unwindkit.jobs.sframe_files import write_sframe
from unwindkit.jobs.sframe_report import SframeReport
from unwindkit.schemas.section import ParseError

from ..support.commands import DIFFERENT, DONE, WRONG, build_program, refuses, unwindkit
from ..support.limited import run
from ..support.tiny_elf import CFI, CODE, ET_EXEC, ET_REL, Content, patched, tiny_elf

BROKEN_SAYS = ".eh_frame+0x2d (file 0x1ad): entry[2].length: the length reaches past the section's end"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    """A folder with programs, a broken one, an object file, a text file, a link to a program and a link to a folder."""
    tree = tmp_path / "tree"
    (tree / "lib" / "deep").mkdir(parents=True)
    program = build_program(tmp_path)
    for name in ("program", "lib/a", "lib/deep/b"):
        shutil.copy(program, tree / name)
    (tree / "lib" / "broken").write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    (tree / "lib" / "object").write_bytes(tiny_elf(e_type=ET_REL))
    (tree / "notes.txt").write_text("no program")
    (tree / "link").symlink_to("program")
    (tree / "folder").symlink_to("lib")
    return tree


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def assembled(path: Path, text: str) -> None:
    """Make a linked file of this code and nothing else."""
    source = path.with_name("code.s")
    source.write_text(f".globl _start\n_start:\n{text}\n")
    subprocess.run(["gcc", "-nostdlib", "-static", source, "-o", path], check=True)
    source.unlink()


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_folder(tree: Path, tmp_path: Path, jobs: str) -> None:
    out, report = tmp_path / "out", tmp_path / "report.json"
    done = unwindkit("sframe", tree, "--output-dir", out, "-j", jobs, "--report", report)
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert written(out) == ["lib/a", "lib/deep/b", "program"]
    alone = tmp_path / "alone"
    assert unwindkit("sframe", tree / "program", "-o", alone).returncode == DONE
    for name in written(out):
        assert (out / name).read_bytes() == alone.read_bytes(), "as if written alone"
        assert subprocess.run([out / name], capture_output=True, text=True, check=True).stdout == "it runs\n"
    lines = done.stderr.splitlines()
    assert f"unwindkit: {tree}/lib/broken: {BROKEN_SAYS}" in lines
    assert f"unwindkit: {tree}/lib/object: e_phnum: is 1: a relocatable file with " in done.stderr
    assert lines[-1] == "5 files: 3 written, 2 failed"
    outcomes = json.loads(report.read_text())
    assert [Path(one["file"]).name for one in outcomes] == ["a", "broken", "b", "object", "program"]
    assert next(one["error"] for one in outcomes if "error" in one) == BROKEN_SAYS
    assert [one["sframe_bytes"] > 0 for one in outcomes if "error" not in one] == [True, True, True]


def test_exit_codes(tree: Path, tmp_path: Path) -> None:
    """`_start` is an outermost frame: nothing is lost. Only version 3 can encode a CFA that is based on RCX."""
    assembled(tree / "of_rcx", ".cfi_startproc\n .cfi_def_cfa %rcx, 16\n nop\n .cfi_endproc")
    for number, (names, version, code) in enumerate(
        (
            (("program", "lib/deep"), "2", DONE),
            (("program", "lib/deep", "of_rcx"), "2", DIFFERENT),
            (("of_rcx", "program"), "2", DIFFERENT),
            (("program", "lib/deep", "of_rcx"), "3", DONE),
        )
    ):
        out = tmp_path / str(number)
        arguments = (*(tree / name for name in names), "--output-dir", out, "--strict")
        done = unwindkit("sframe", *arguments, "--sframe-version", version)
        assert done.returncode == code, done.stderr
        assert len(written(out)) == len(names)


def test_too_little_coverage_of_one_file_fails_all(tree: Path, tmp_path: Path) -> None:
    assembled(tree / "half", ".cfi_startproc\n .zero 64\n .cfi_endproc\n .zero 64")
    assembled(tree / "whole", ".cfi_startproc\n .zero 64\n .cfi_endproc")
    arguments = (tree / "half", tree / "whole", "--output-dir", tmp_path / "out", "--min-coverage")
    assert unwindkit("sframe", *arguments, "50").returncode == DONE
    done = unwindkit("sframe", *arguments, "50.5")
    assert done.returncode == DIFFERENT
    message = f"unwindkit: {tree}/half: 50.00 % of code bytes covered, less than --min-coverage 50.5 %"
    assert [line for line in done.stderr.splitlines() if "less than" in line] == [message]
    assert written(tmp_path / "out") == ["half", "whole"]


def test_wrong_usage(tree: Path, tmp_path: Path) -> None:
    program, out = tree / "program", tmp_path / "out"
    for arguments, says in (
        ((program, program, "-o", out), "several files require --output-dir"),
        ((program, program, "--in-place", "--manifest", out), "--manifest requires --output-dir: with --in-place, "),
        ((tree, "--in-place", "--debug-file", program), "--debug-file is for one file"),
        ((program, "-o", out, "-j", "2"), "-j requires --output-dir"),
        ((program, "--output-dir", out, "-j", "0"), "-j requires --output-dir"),
        ((program, "--output-dir", out, "-o", out), "not allowed with argument"),
        ((program, "--section", out, "--writer", "lief"), "--section does not write an ELF file"),
    ):
        done = unwindkit("sframe", *arguments)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert says in done.stderr
        assert not out.exists()


def test_a_tree_is_rewritten_in_place(tree: Path, tmp_path: Path) -> None:
    """Again, it stays as it is: so does one that a killed run has left."""
    copy = Path(shutil.copytree(tree, tmp_path / "copy", symlinks=True))
    shutil.rmtree(copy / "lib" / "deep")
    before = {name: (copy / name).read_bytes() for name in written(copy)}
    done = unwindkit("sframe", tree, "--output-dir", tmp_path / "out")
    (copy / "lib" / ".unwindkit-left").write_text("by a killed run")
    for _ in range(2):
        done = unwindkit("sframe", copy, "--in-place", "-j", "2")
        assert (done.returncode, done.stderr.splitlines()[-1]) == (WRONG, "4 files: 2 written, 2 failed")
        for name in ("lib/a", "program"):
            assert (copy / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
        assert written(copy) == sorted(before)
        unchanged = ("lib/broken", "lib/object", "notes.txt")
        assert all((copy / name).read_bytes() == before[name] for name in unchanged)
        assert (copy / "link").is_symlink()
    package = tmp_path / "x.tar"
    subprocess.run(["tar", "-cf", package, "-C", tree, "program"], check=True)
    done = unwindkit("sframe", package, tree / "program", "--in-place")
    assert done.returncode == WRONG
    assert f"{package} is a package: --in-place replaces files and folders only" in done.stderr


def test_files_that_would_become_one_or_overwrite_themselves(tree: Path, tmp_path: Path) -> None:
    one, two = tree / "program", tree / "lib" / "program"
    shutil.copy(one, two)
    says = f"{one} and {two} would both become {tmp_path}/out/program"
    refuses(tmp_path / "out", "sframe", one, two, "--output-dir", tmp_path / "out", says=says)
    refuses(tree, "sframe", one, "--output-dir", tree, says=f"{one} would be written over itself")
    refuses(tree, "sframe", tree, "--output-dir", tree, says=f"{tree}/lib/a would be written over itself")
    none = tree / "none"
    done = unwindkit("sframe", none, one, "--output-dir", tmp_path / "out")
    assert (done.returncode, written(tmp_path / "out")) == (WRONG, ["program"])
    assert f"unwindkit: {none}: No such file or directory" in done.stderr


def test_a_folder_that_is_given_twice_is_done_once(tree: Path, tmp_path: Path) -> None:
    """By its own name, and through a symbolic link."""
    link = tmp_path / "link"
    link.symlink_to(tree / "lib" / "deep", target_is_directory=True)
    folders = (tree / "lib" / "deep", link, tree / "lib" / "deep")
    done = unwindkit("sframe", *folders, "--output-dir", tmp_path / "out")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "1 file: 1 written, 0 failed")
    assert written(tmp_path / "out") == ["b"]
    done = unwindkit("breakpad", *folders, "--store", tmp_path / "store")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "1 file: 1 done, 0 failed")


def pairs_of(tree: Path, out: Path) -> list[tuple[Path, Path]]:
    """The files of a tree with the same places in another."""
    files = sources.find_sources([tree], sources.is_elf_or_archive).files
    return [(Path(one.name), out / one.place) for one in files]


def test_any_executor(tree: Path, tmp_path: Path) -> None:
    for name, executor in (("threads", ThreadPoolExecutor(2)), ("here", None)):
        pairs = pairs_of(tree, tmp_path / name)
        outcomes = list(write_sframe_many(pairs, executor, compact="none", version=3))
        assert [type(one) for one in outcomes] == [SframeReport, Failure, SframeReport, Failure, SframeReport]
        assert {(one.version, one.compact) for one in outcomes if isinstance(one, SframeReport)} == {(3, "none")}


def kills(source: Path, out: Path, **choices: Any) -> SframeReport:
    """Some file ends the process that reads it."""
    if source.name == "broken":
        os.kill(os.getpid(), signal.SIGKILL)
    return write_sframe(source, out, **choices)


@pytest.fixture(name="deadly")
def _deadly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import multiprocessing

    monkeypatch.setattr(mapped, "write_sframe", kills)
    forked = multiprocessing.get_context("fork")  # so that the workers inherit the replacement
    monkeypatch.setattr(mapped, "worker_processes", lambda jobs, files: ProcessPoolExecutor(1, forked))
    return


@pytest.mark.usefixtures("deadly")
def test_only_the_file_that_kills_its_worker_fails(tree: Path, tmp_path: Path) -> None:
    pairs = pairs_of(tree, tmp_path / "out")
    with mapped.worker_processes(2, 2) as executor:
        outcomes = list(write_sframe_many(pairs, executor))
    failures = {Path(one.file).name: one.error for one in outcomes if isinstance(one, Failure)}
    assert failures.pop("broken") == "the process that converted it died"
    assert list(failures) == ["object"]
    assert written(tmp_path / "out") == ["lib/a", "lib/deep/b", "program"]


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(sources._in_folder(tmp_path / "none", sources.is_elf_or_archive, None))
    with pytest.raises(ParseError, match="would both become"):
        list(write_sframe_tree(["a/x", "b/x"], tmp_path))


# --- how files are distinguished ------------------------------------------------------------------------------


def test_signed_files_are_converted_with_a_warning(tree: Path, tmp_path: Path) -> None:
    signed = tmp_path / "signed"
    signed.write_bytes((tree / "program").read_bytes() + b"signature~Module signature appended~\n")
    signed.chmod(0o755)
    done = unwindkit("sframe", signed, "-o", tmp_path / "out")
    says = "the file is signed (appended to the file); the signature does not match the result"
    warning = f"unwindkit: {signed}: warning: {says}"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, warning)
    done = unwindkit("sframe", signed, "--output-dir", tmp_path / "many")
    assert warning in done.stderr.splitlines()
    assert "warning" not in unwindkit("sframe", tree / "program", "-o", tmp_path / "out").stderr


def test_an_ima_signature_is_warned_of(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tree / "program"
    asked: list[str] = []

    def getxattr(handle: int, name: str) -> bytes:
        asked.append(name)
        if name == "security.ima":
            return b"\3\1"
        raise OSError(61, "No data available")

    monkeypatch.setattr("os.getxattr", getxattr)
    assert write_sframe(program, tmp_path / "out").warnings == (
        "the file is signed (security.ima); the signature does not match the result",
    )
    assert asked == ["security.ima", "security.evm"]


def named(name: str, **fields: int) -> bytes:
    return bytes(tiny_elf(CODE, CFI, Content(name, b"x"), **fields))


OTHERS = {
    "module.ko": (
        named(".gnu.linkonce.this_module", e_type=ET_REL),
        "e_type: is a kernel module: its addresses are not known before the link",
    ),
    "module.ko.xz": (b"\xfd7zXZ\0\0\4" + bytes(600), "not an ELF file but xz-compressed: unpack it first"),
    "module.ko.zst": (b"\x28\xb5\x2f\xfd" + bytes(600), "not an ELF file but zstd-compressed: unpack it first"),
    "program.gz": (b"\x1f\x8b\x08" + bytes(600), "not an ELF file but gzip-compressed: unpack it first"),
    "bzImage": (b"MZ" + bytes(0x200) + b"HdrS" + bytes(100), "not an ELF file but a compressed kernel image (bzImage)"),
    "Image": (b"MZ" + bytes(54) + b"ARM\x64" + bytes(100), "not an ELF file but a kernel image without ELF headers"),
    "libx.a": (b"!<arch>\n" + bytes(60), "archive+0x42: ar_fmag: 0000 is not 600a"),
    "thin.a": (
        b"!<thin>\n" + bytes(60),
        "magic: is a thin archive: its members are separate files; use them instead",
    ),
    "x32": (
        b"\x7fELF\1\1\1" + bytes(9) + b"\2\0\x3e\0\1\0\0\0" + bytes(28),
        ".sframe: abi_arch: SFrame has no ABI for x32",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_are_named(name: str, tmp_path: Path) -> None:
    data, says = OTHERS[name]
    path = tmp_path / name
    path.write_bytes(data)
    refuses(path, "sframe", path, "-o", tmp_path / "out", says=says)


def test_a_kernel_image_gets_no_segment(tree: Path, tmp_path: Path) -> None:
    image, raw = tmp_path / "vmlinux", tmp_path / "raw"
    raw.write_bytes(b"x" * 8)
    subprocess.run(["objcopy", "--add-section", f"__ksymtab={raw}", tree / "program", image], check=True)
    reason = "its boot loader expects exactly its segments, and nothing would look for another"
    says = f".sframe: e_type: is a kernel image: {reason}"
    refuses(image, "sframe", image, "-o", tmp_path / "out", says=says)
    assert unwindkit("sframe", image, "--section", tmp_path / "section").returncode == DONE


def test_times_are_kept_if_asked_for(tree: Path, tmp_path: Path) -> None:
    program = tree / "program"
    os.utime(program, (10**9, 10**9 + 5))
    for name, options in (("now", ()), ("then", ("--preserve-dates",))):
        out = tmp_path / name
        assert unwindkit("sframe", program, "-o", out, *options).returncode == DONE
        assert unwindkit("remove", out, "-o", tmp_path / f"{name}.without", *options).returncode == DONE
        for path in (out, tmp_path / f"{name}.without"):
            assert (path.stat().st_mtime == 10**9 + 5) == (name == "then")


def test_patched_machine_is_refused_in_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(patched(tiny_elf(CODE, CFI, e_type=ET_EXEC), e_machine=0x1234))
    done = unwindkit("sframe", path, "--output-dir", tmp_path / "out")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (WRONG, "1 file: 0 written, 1 failed")


def test_a_file_that_needs_too_much_memory_fails_alone(tmp_path: Path) -> None:
    """A section of 256 MB, whose columns of record offsets alone do not fit 1000 MB."""
    large, small, out = tmp_path / "large", build_program(tmp_path), tmp_path / "out"
    large.write_bytes(patched(tiny_elf(), 2, sh_size=256 << 20))
    os.truncate(large, 257 << 20)  # takes no space on disk
    program = f"""
        from unwindkit import write_sframe_many
        LIMITS
        pairs = [({str(large)!r}, {str(out / "large")!r}), ({str(small)!r}, {str(out / "small")!r})]
        for one in write_sframe_many(pairs, writer="native"):
            print(getattr(one, "error", "written"))
    """
    assert run(program, megabytes=1000, seconds=20).splitlines() == ["not enough memory", "written"]
