"""Packages with the files of a folder, made by the programs of their distributions where there are such."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from .oracles import absent

CONTROL = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
SPEC = """Name: x
Version: 1
Release: 1
Summary: x
License: x
%description
x
%global __os_install_post %{{nil}}
%define __spec_install_post %{{nil}}
%install
cp -a {tree}/. %{{buildroot}}
%files
/*
"""


def _needs(program: str) -> None:
    if shutil.which(program) is None:
        absent(f"there is no {program}")


def deb(tree: Path, out: Path, compression: str = "xz") -> Path:
    """A Debian package, by dpkg-deb."""
    _needs("dpkg-deb")
    root = out.with_suffix(".root")
    shutil.copytree(tree, root, symlinks=True, copy_function=_copy_or_link(tree, root))
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(CONTROL)
    subprocess.run(["dpkg-deb", f"-Z{compression}", "-b", root, out], check=True, capture_output=True)
    shutil.rmtree(root)
    return out


def _copy_or_link(tree: Path, root: Path) -> Callable[[str, str], object]:
    """Copies of files; hard links stay hard links."""
    copies: dict[int, str] = {}

    def copy(source: str, target: str) -> object:
        number = Path(source).stat().st_ino
        if number in copies:
            Path(target).hardlink_to(copies[number])
            return target
        copies[number] = target
        return shutil.copy2(source, target)

    return copy


def rpm(tree: Path, out: Path, compression: str = "w9.gzdio") -> Path:
    """An RPM package, by rpmbuild."""
    _needs("rpmbuild")
    top = out.with_suffix(".top")
    top.mkdir()
    (top / "x.spec").write_text(SPEC.format(tree=tree))
    macros = {"_topdir": str(top), "_binary_payload": compression, "_build_id_links": "none", "_rpmdir": str(top)}
    defines = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    subprocess.run(["rpmbuild", "-bb", *defines, top / "x.spec"], check=True, capture_output=True)
    (made,) = top.rglob("*.rpm")
    made.rename(out)
    shutil.rmtree(top)
    return out


def tar_of(tree: Path, names: Iterable[str] = ("",), *, is_ended: bool = True) -> bytes:
    """A tar archive of a folder, by the standard library."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, path.relative_to(tree).as_posix(), recursive=False)
        size = archive.offset
    return out.getvalue() if is_ended else out.getvalue()[:size]


def apk(tree: Path, out: Path) -> Path:
    """An Alpine package of version 2: three archives of which only the last has an end, each a gzip stream."""
    first, second = io.BytesIO(), io.BytesIO()
    for stream, name in ((first, ".SIGN.RSA.x.rsa.pub"), (second, ".PKGINFO")):
        with tarfile.open(fileobj=stream, mode="w") as archive:
            about = tarfile.TarInfo(name)
            about.size = 5
            archive.addfile(about, io.BytesIO(b"x = 1"))
    # A header, and a block with the contents.
    parts = (first.getvalue()[:1024], second.getvalue()[:1024], tar_of(tree))
    out.write_bytes(b"".join(gzip.compress(part, mtime=0) for part in parts))
    return out


def wheel(tree: Path, out: Path) -> Path:
    """A zip archive; it has no hard links and no symbolic links."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(tree.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.write(path, path.relative_to(tree).as_posix())
    return out


def tarball(tree: Path, out: Path, option: str = "--zstd", form: str = "gnu") -> Path:
    """A tar archive, by GNU tar."""
    _needs("tar")
    subprocess.run(["tar", f"--format={form}", option, "-cf", out, "-C", tree, "."], check=True)
    return out


def image(layers: Iterable[bytes], out: Path) -> Path:
    """An image in OCI's layout, of these layers."""
    blobs = out / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data), "mediaType": "application/octet-stream"}

    manifest = {"schemaVersion": 2, "config": put(b"{}"), "layers": [put(one) for one in layers]}
    index = {"schemaVersion": 2, "manifests": [put(json.dumps(manifest).encode())]}
    (out / "index.json").write_text(json.dumps(index))
    (out / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return out
