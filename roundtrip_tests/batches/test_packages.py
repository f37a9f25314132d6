"""Batches of packages: the results are those of the same files unpacked.

Strategy: one tree of files in packages of every kind, made by the programs of their distributions; the tree itself is
what they are compared with. Hostile packages are made by hand.
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from unwindkit.converters.packages.archives import tar_members
from unwindkit.converters.packages.members import Member, Unread, Wanted
from unwindkit.converters.packages.readers import package_members
from unwindkit.converters.packages.streams import Unpacked
from unwindkit.schemas.section import ParseError

from ..support.commands import DONE, WRONG, unwindkit
from ..support.packages import apk, deb, image, rpm, tar_of, tarball, wheel
from ..support.tiny_elf import ET_REL, tiny_elf

LONG = "a-folder-whose-name-is-long/" * 6 + "file-whose-name-is-long-as-well-so-that-no-header-has-space-for-it"
MAKERS: dict[str, Callable[[Path, Path], Path]] = {
    "xz.deb": deb,
    "gz.deb": lambda tree, out: deb(tree, out, "gzip"),
    "zst.deb": lambda tree, out: deb(tree, out, "zstd"),
    "none.deb": lambda tree, out: deb(tree, out, "none"),
    "gz.rpm": rpm,
    "xz.rpm": lambda tree, out: rpm(tree, out, "w2.xzdio"),
    "zst.rpm": lambda tree, out: rpm(tree, out, "w3.zstdio"),
    "x.apk": apk,
    "gnu.tar.zst": tarball,
    "pax.tar.xz": lambda tree, out: tarball(tree, out, "-J", "pax"),
    "ustar.tar.bz2": lambda tree, out: tarball(tree, out, "-j", "pax"),
    "plain.tar": lambda tree, out: tarball(tree, out, "--no-acls"),
    "x.whl": wheel,
    "image": lambda tree, out: image([gzip.compress(tar_of(tree))], out),
}


@pytest.fixture(scope="module", name="tree")
def _tree(built_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs, one of them with two names, an object file, a text file, and a symbolic link."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / LONG).parent.mkdir(parents=True)
    for name in ("program", LONG):
        shutil.copy(built_program, tree / name)
    (tree / "other-name").hardlink_to(tree / "program")
    (tree / "object.o").write_bytes(tiny_elf(e_type=ET_REL))
    (tree / "notes.txt").write_text("no program")
    (tree / "link").symlink_to("program")
    return tree


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_package_gives_what_its_files_give(kind: str, tree: Path, tmp_path: Path) -> None:
    package = MAKERS[kind](tree, tmp_path / kind)
    for source, name in ((tree, "of-files"), (package, "of-package")):
        done = unwindkit("breakpad", source, "--store", tmp_path / name, "--no-debug-links")
        assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "3 files: 3 done, 0 failed")
        unwindkit("sframe", source, "--output-dir", tmp_path / "trees" / name, "--no-debug-links")
    assert contents(tmp_path / "of-package") == contents(tmp_path / "of-files")
    assert len(contents(tmp_path / "of-files")) == 3, "modules are called after their files"
    found = contents(tmp_path / "trees" / "of-package" / package.name)
    assert found == contents(tmp_path / "trees" / "of-files")
    assert sorted(found) == sorted(["other-name", "program", LONG])
    mode = (tmp_path / "trees" / "of-package" / package.name / "program").stat().st_mode
    assert mode & 0o777 == (tree / "program").stat().st_mode & 0o777


def test_lists_of_files_and_packages_in_folders(tree: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    wheel(tree, packages / "a.whl")
    apk(tree, packages / "b.apk")
    names = tmp_path / "names"
    for text in (f"{packages}\n{tree}/program\n", f"{packages}\0{tree}/program\0"):
        names.write_text(text)
        done = unwindkit("sframe", "--files-from", names, "--output-dir", tmp_path / "out", "--no-debug-links")
        assert done.returncode == WRONG, "object files without call frame information fail"
        wanted = {f"{package}/{name}" for package in ("a.whl", "b.apk") for name in ("program", "other-name", LONG)}
        assert set(contents(tmp_path / "out")) == wanted | {"program"}
    assert f"unwindkit: {packages}/a.whl!/object.o: " in done.stderr


def layer(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            about = tarfile.TarInfo(name.replace("__", "/"))
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return out.getvalue()


def named(archive: bytes | Path) -> dict[str, bytes]:
    """All files of an archive, or of an image in a folder."""
    from unwindkit.batches.sources import members_of_package

    wanted = Wanted(lambda path, start: True)
    if isinstance(archive, Path):
        found = list(members_of_package(archive, wanted))
    else:
        found = list(package_members("x", memoryview(archive), wanted))
    assert not [one for one in found if isinstance(one, Unread)]
    return {one.path: one.data for one in found if isinstance(one, Member)}


def test_an_image_has_the_files_that_its_container_would_see(tmp_path: Path) -> None:
    first = layer(a__one=b"1", a__two=b"2", b__three=b"3", c__four=b"4", d__five=b"5", e=b"6", f__seven=b"7")
    second = layer(
        **{"a__.wh.one": b"", "b__.wh..wh..opq": b"", "b__new": b"8", ".wh.c": b"", "d": b"9", "e__x": b"10"}
    )
    third = layer(a__two=b"2 again", f__seven=b"7 again")
    layers = (first, gzip.compress(second), third)
    wanted = {"a/two": b"2 again", "b/new": b"8", "d": b"9", "f/seven": b"7 again", "e": b"6", "e/x": b"10"}
    found = named(image(layers, tmp_path / "image"))
    assert {name: data for name, data in found.items() if ".wh." not in name} == wanted
    archive = tmp_path / "image.tar"
    archive.write_bytes(tar_of(tmp_path / "image"))
    assert named(archive) == found


def test_a_blob_with_other_content_is_refused(tmp_path: Path) -> None:
    folder = image([layer(a=b"1")], tmp_path / "image")
    largest = max((folder / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(layer(a=b"2"))
    with pytest.raises(ParseError, match="has other content"):
        named(folder)
    largest.unlink()
    with pytest.raises(ParseError, match="there is no blob"):
        named(folder)


# --- hostile packages -------------------------------------------------------------------------------------------


def read(data: bytes, limit: int = 1 << 20) -> list[Member | Unread]:
    stream = memoryview(data)
    return list(tar_members(lambda: Unpacked("tar", stream), Wanted(lambda path, start: True, limit)))


def test_paths_that_lead_out_of_the_package_are_not_read() -> None:
    found = read(layer(**{"..__..__etc__passwd": b"x", "a__..__..__b": b"x", "__root": b"y", "__.__c__": b"z"}))
    assert [(one.path, type(one)) for one in found] == [
        ("../../etc/passwd", Unread),
        ("a/../../b", Unread),
        ("root", Member),
    ]


def test_nothing_is_written_outside_the_output_folder(tree: Path, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
        archive.addfile(link)
        for name in ("../outside", "/absolute", "out/through-a-link", "twice", "twice"):
            about = tarfile.TarInfo(name)
            data = (tree / "program").read_bytes()
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    package = tmp_path / "x.tar"
    package.write_bytes(out.getvalue())
    done = unwindkit("sframe", package, "--output-dir", tmp_path / "out", "--no-debug-links")
    assert done.returncode == WRONG
    assert set(contents(tmp_path)) == {
        "x.tar",
        *(f"out/x.tar/{name}" for name in ("absolute", "out/through-a-link", "twice")),
    }
    assert f"unwindkit: {package}!/../outside: its path leads out of the package" in done.stderr
    assert f"unwindkit: {package}!/twice: is twice in the package" in done.stderr
    assert not Path("/tmp/through-a-link").exists()


def test_files_above_the_limit_fail_by_name(tree: Path, tmp_path: Path) -> None:
    package = wheel(tree, tmp_path / "x.whl")
    size = (tree / "program").stat().st_size
    for limit, code in ((size, DONE), (size - 1, WRONG)):
        arguments = ("--store", tmp_path / "store", "--no-debug-links", "--member-limit", str(limit))
        done = unwindkit("breakpad", package, *arguments)
        assert done.returncode == code
    says = f"has {size:,} bytes, the limit for a file in a package is {size - 1:,} (--member-limit)"
    assert f"unwindkit: {package}!/program: {says}" in done.stderr
    assert "  failed: 3 files: has ... bytes, the limit for a file in a package is ... (--member-limit)" in done.stderr


def test_what_is_read_before_a_package_is_found_to_be_broken_is_kept(tree: Path, tmp_path: Path) -> None:
    whole = tar_of(tree)
    at = whole.index(b"other-name")
    packed = gzip.compress(whole)
    for broken, says in (
        (whole[: at + 4000], "is truncated"),
        (whole[: at + 100] + b"99999999" + whole[at + 108 :], "chksum"),
        (packed[: len(packed) // 2], "the compressed data is truncated"),
    ):
        package = tmp_path / "x.tar"
        package.write_bytes(broken)
        done = unwindkit("breakpad", package, "--store", tmp_path / "store", "--no-debug-links")
        assert done.returncode == WRONG, says
        (line,) = [line for line in done.stderr.splitlines() if line.startswith(f"unwindkit: {package}: ")]
        assert says in line
        assert ", 1 failed" in done.stderr


def test_headers_before_a_header_take_little_memory() -> None:
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    with pytest.raises(ParseError, match="the limit for an extended header is 1048576"):
        read(about.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    # Thousands of headers that are about the next one: the standard library's reader fails with RecursionError.
    about.size = 2
    many = (about.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")) * 5000
    assert read(many) == []


@pytest.mark.parametrize("records", [b"6 a=1\nno-space", b"6 a=1\n0 a=1\n", b"6 a=1\n99 a=1\n", b"5 a1\n", b"6 a=12"])
def test_malformed_extended_headers_are_refused(records: bytes) -> None:
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.XHDTYPE, len(records)
    with pytest.raises(ParseError, match="extended header: "):
        read(about.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0") + layer(a=b"1"))


def test_a_stream_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unwindkit.converters.packages.streams.LEAST_UNPACKED", 1 << 20)
    monkeypatch.setattr("unwindkit.converters.packages.streams.MAX_UNPACKED", 100)
    with pytest.raises(ParseError, match="unpacks to more than 1,"):
        read(gzip.compress(layer(a=bytes(8 << 20))), 1 << 30)


@pytest.mark.parametrize("kind", ["xz.deb", "gz.rpm", "x.apk", "x.whl", "gnu.tar.zst", "plain.tar"])
def test_a_damaged_package_is_a_format_error_or_gives_files(kind: str, tree: Path, tmp_path: Path) -> None:
    whole = bytearray(MAKERS[kind](tree, tmp_path / kind).read_bytes())
    errors = 0
    for at in (*range(0, min(len(whole), 1200), 7), *range(1200, len(whole), max(1, len(whole) // 60))):
        for value in (0, 0xFF, whole[at] ^ 0x40):
            data = bytes(whole[:at]) + bytes([value]) + bytes(whole[at + 1 :])
            try:
                list(package_members("x", memoryview(data), Wanted(lambda path, start: True)))
            except ParseError:
                errors += 1
    assert errors
