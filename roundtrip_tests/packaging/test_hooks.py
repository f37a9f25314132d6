"""The hooks in packaging/, run by the tools that they are for: debhelper, rpmbuild, makepkg; Nix's by a stand-in.

Strategy: each packages the same tree, a program and a library with assembler, and must make what
`unwindkit sframe --in-place` makes of it, leaving out what it says it leaves out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import unwindkit

from ..support.oracles import absent

# dpkg-buildpackage and make come with it.
pytestmark = pytest.mark.oracle("dh", "make")
HOOKS = Path(__file__).parents[2] / "packaging"
MAIN = '#include <stdio.h>\nextern int twice(int);\nint main(void) { printf("%d\\n", twice(21)); return 0; }\n'
ASSEMBLER = """.text
.globl twice
.type twice, @function
twice: .cfi_startproc
  push %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  lea (%rdi,%rdi), %eax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  ret
  .cfi_endproc
.size twice, . - twice
.section .note.GNU-stack, "", @progbits
"""
CONTROL = """Source: twice
Maintainer: x <x@example.org>
Build-Depends: debhelper-compat (= 13)
Rules-Requires-Root: no
Standards-Version: 4.6.2

Package: twice
Architecture: any
Depends: ${shlibs:Depends}, ${misc:Depends}
Description: prints twice a number
 For tests.
"""
RULES = "#!/usr/bin/make -f\n%:\n\tdh $@ --with unwindkit\n"
CHANGELOG = (
    "twice (1-1) unstable; urgency=low\n\n  * First.\n\n -- x <x@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n"
)
MAKEFILE = """all: twice
libtwice.so: twice.s
\tgcc -g -shared -Wl,-soname,libtwice.so -o $@ $<
twice: main.c libtwice.so
\tgcc -g -O2 -o $@ main.c -L. -ltwice
install: all
\tmkdir -p $(DESTDIR)/usr/bin $(DESTDIR)/usr/lib $(DESTDIR)/usr/share/twice
\tcp twice $(DESTDIR)/usr/bin/twice
\tln $(DESTDIR)/usr/bin/twice $(DESTDIR)/usr/bin/twice-again
\tcp twice $(DESTDIR)/usr/bin/plain
\tcp libtwice.so $(DESTDIR)/usr/lib/
\techo text > $(DESTDIR)/usr/share/twice/text
clean:
\trm -f twice libtwice.so
"""


MAKEPKG = """LIBRARY=/usr/share/makepkg
. $LIBRARY/util/message.sh
. $LIBRARY/util/option.sh
gettext() { printf '%s' "$1"; }
msg2() { printf '%s\\n' "$1"; }
error() { printf '%s\\n' "$1" >&2; }
OPTIONS=(strip unwindkit)
options=("$@")
packaging_options=() tidy_modify=() UNWINDKIT_OPTIONS=(--exclude usr/bin/plain)
. HOOK
printf '%s\\n' "${packaging_options[@]}" "${tidy_modify[@]}"
"${tidy_modify[@]}"
echo built
"""
STDENV = """postFixupHooks=()
getAllOutputNames() { echo out lib; }
. HOOK
for hook in "${postFixupHooks[@]}"; do "$hook"; done
echo built
"""


@pytest.fixture(name="environment")
def _environment(tmp_path: Path) -> dict[str, str]:
    """That of a build: the hooks are found as if they were installed, and `unwindkit` is this one."""
    tools = tmp_path / "tools"
    sequence = tools / "perl" / "Debian" / "Debhelper" / "Sequence"
    sequence.mkdir(parents=True)
    shutil.copy(HOOKS / "debhelper" / "unwindkit.pm", sequence)
    shutil.copy(HOOKS / "debhelper" / "dh_unwindkit", tools)
    (tools / "unwindkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m unwindkit "$@"\n')
    (tools / "unwindkit").chmod(0o755)
    return os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PERL5LIB": str(tools / "perl"), "LC_ALL": "C"}


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    source = tmp_path / "twice-1"
    (source / "debian" / "source").mkdir(parents=True)
    for name, text in {"main.c": MAIN, "twice.s": ASSEMBLER, "Makefile": MAKEFILE}.items():
        (source / name).write_text(text)
    files = {"control": CONTROL, "rules": RULES, "changelog": CHANGELOG, "source/format": "3.0 (native)\n"}
    for name, text in files.items():
        (source / "debian" / name).write_text(text)
    (source / "debian" / "rules").chmod(0o755)
    (source / "debian" / "twice.unwindkit-exclude").write_text("# a comment\nusr/bin/plain\n")
    return source


def run(environment: dict[str, str], folder: Path, *command: str | Path) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def has_sframe(path: Path) -> bool:
    return bool(unwindkit.open_elf(path).named(".sframe"))


def check_tree(root: Path, plain: str = "usr/bin/plain") -> None:
    """What every hook must have made."""
    found = {
        str(path.relative_to(root)): has_sframe(path)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF" and path.suffix != ".debug"
    }
    wanted = {"usr/bin/plain": True, "usr/bin/twice": True, "usr/bin/twice-again": True, "usr/lib/libtwice.so": True}
    assert found == wanted | {plain: False}
    assert (root / "usr/bin/twice").stat().st_ino == (root / "usr/bin/twice-again").stat().st_ino
    shown = subprocess.run(
        [root / "usr/bin/twice"], env={"LD_LIBRARY_PATH": str(root / "usr/lib")}, capture_output=True, check=True
    )
    assert shown.stdout == b"42\n"
    (pair,) = unwindkit.check(root / "usr/lib/libtwice.so", source="all", second_source="sframe").pairs
    assert pair.is_equal
    assert pair.equal.ranges > 3


def test_debhelper(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    """Built twice, with one process and with two: the same bytes."""
    debs = []
    for count in (1, 2):
        built = environment | {"DEB_BUILD_OPTIONS": f"parallel={count}"}
        log = run(built, source, "dpkg-buildpackage", "-b", "-us", "-uc")
        assert log.index("dh_strip") < log.index("dh_unwindkit") < log.index("dh_makeshlibs")
        debs.append((tmp_path / "twice_1-1_amd64.deb").read_bytes())
    assert debs[0] == debs[1]
    run(environment, tmp_path, "dpkg", "-x", "twice_1-1_amd64.deb", "root")
    check_tree(tmp_path / "root")
    # The debug package still belongs to the files.
    run(environment, tmp_path, "dpkg", "-x", "twice-dbgsym_1-1_amd64.deb", "root")
    folder = tmp_path / "root" / "usr/lib/debug"
    debug = unwindkit.DebugFiles(folders=(folder,))
    assert len(unwindkit.read_lines(tmp_path / "root" / "usr/bin/twice", debug)) > 3


def test_debhelper_options(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    (source / "debian" / "twice.unwindkit-exclude").unlink()
    rules = f"{RULES}override_dh_unwindkit:\n\tdh_unwindkit -Xbin/plain --no-check -- --sframe-version 3\n"
    (source / "debian" / "rules").write_text(rules)
    run(environment, source, "dpkg-buildpackage", "-b", "-us", "-uc")
    run(environment, tmp_path, "dpkg", "-x", "twice_1-1_amd64.deb", "root")
    check_tree(tmp_path / "root")
    image = unwindkit.open_elf(tmp_path / "root" / "usr/bin/twice")
    assert image.contents(image.named(".sframe")[0]).data[2] == 3
    none = environment | {"DEB_BUILD_OPTIONS": "nounwindkit"}
    run(none, source, "dpkg-buildpackage", "-b", "-us", "-uc")
    run(environment, tmp_path, "dpkg", "-x", "twice_1-1_amd64.deb", "without")
    assert not has_sframe(tmp_path / "without" / "usr/bin/twice")


def failing(environment: dict[str, str], tmp_path: Path) -> Path:
    """An `unwindkit` that writes down its arguments, and finds what it has written wrong."""
    calls = tmp_path / "calls"
    (tmp_path / "tools" / "unwindkit").write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit 2\n')
    return calls


def test_a_build_fails_with_a_wrong_section(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    calls = failing(environment, tmp_path)
    command = ["dpkg-buildpackage", "-b", "-us", "-uc"]
    assert subprocess.run(command, cwd=source, env=environment, capture_output=True, check=False).returncode != 0
    assert "--where-possible" in calls.read_text()
    assert "--check" in calls.read_text()
    (source / "debian" / "rules").write_text(f"{RULES}override_dh_unwindkit:\n\tdh_unwindkit --no-check -X 'a[b]*'\n")
    calls.unlink()
    assert subprocess.run(command, cwd=source, env=environment, capture_output=True, check=False).returncode != 0
    assert "--check" not in calls.read_text()
    assert "--exclude *a[[]b[]][*]*" in calls.read_text()


@pytest.mark.parametrize("name", ["makepkg", "nix"])
def test_other_builds_fail_with_a_wrong_section(
    name: str, environment: dict[str, str], source: Path, tmp_path: Path
) -> None:
    if name == "makepkg" and not Path("/usr/share/makepkg/util/option.sh").exists():
        absent("there is no makepkg")
    root = tmp_path / "root"
    run(environment, source, "make", "install", f"DESTDIR={root}")
    calls = failing(environment, tmp_path)
    hook, script = {"makepkg": ("makepkg/unwindkit.sh", MAKEPKG), "nix": ("nix/setup-hook.sh", STDENV)}[name]
    placed = environment | {"pkgdir": str(root), "out": str(root), "lib": str(tmp_path / "none")}
    command = ["bash", "-c", script.replace("HOOK", str(HOOKS / hook)), "build"]
    done = subprocess.run(command, env=placed, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "built" not in done.stdout
    assert "--where-possible --check" in calls.read_text()


def test_a_build_fails_with_a_file_that_cannot_be_rewritten(
    environment: dict[str, str], source: Path, tmp_path: Path
) -> None:
    with (source / "Makefile").open("a") as makefile:
        makefile.write("\ninstall: broken\nbroken:\n\tprintf '\\177ELF' > broken\n\tmkdir -p $(DESTDIR)/usr/bin\n")
        makefile.write("\tcp broken $(DESTDIR)/usr/bin/broken\n")
    rules = f"{RULES}override_dh_strip override_dh_dwz:\n"
    (source / "debian" / "rules").write_text(rules)
    done = subprocess.run(
        ["dpkg-buildpackage", "-b", "-us", "-uc"],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "usr/bin/broken: e_ident" in done.stderr
    assert "3 files: 2 written, 1 failed" in done.stderr


def test_rpm(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    if shutil.which("rpmbuild") is None:
        absent("there is no rpmbuild")
    shutil.rmtree(source / "debian")
    config = run(environment, tmp_path, "rpm", "--eval", "%{_rpmconfigdir}").strip()
    macros = (
        (HOOKS / "rpm" / "macros.unwindkit")
        .read_text()
        .replace("%{_rpmconfigdir}/brp-unwindkit", str(HOOKS / "rpm" / "brp-unwindkit"))
    )
    (tmp_path / "macros.unwindkit").write_text(macros)
    (tmp_path / "twice.spec").write_text(f"""Name: twice
Version: 1
Release: 1
Summary: x
License: x
%define unwindkit_options --exclude usr/bin/plain
%unwindkit_sframe
%description
x
%build
make -C {source}
%install
make -C {source} install DESTDIR=%{{buildroot}}
%files
/usr
""")
    paths = f"{config}/macros:{config}/platform/%{{_target}}/macros:{tmp_path}/macros.unwindkit"
    command = ("rpmbuild", "--macros", paths, "--define", f"_topdir {tmp_path}/top", "-bb", "twice.spec")
    log = run(environment, tmp_path, *command)
    assert "brp-unwindkit" in log
    good = (tmp_path / "tools" / "unwindkit").read_text()
    calls = failing(environment, tmp_path)
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode != 0
    assert "--where-possible --check" in calls.read_text()
    (tmp_path / "tools" / "unwindkit").write_text(good)
    run(environment, tmp_path, *command)
    (package,) = (tmp_path / "top").rglob("twice-1-1*.rpm")
    (tmp_path / "root").mkdir()
    subprocess.run(f"rpm2cpio {package} | cpio -id --quiet", shell=True, cwd=tmp_path / "root", check=True)
    check_tree(tmp_path / "root")


def test_makepkg(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    """By the functions of makepkg itself."""
    if not Path("/usr/share/makepkg/util/option.sh").exists():
        absent("there is no makepkg")
    root = tmp_path / "root"
    run(environment, source, "make", "install", f"DESTDIR={root}")
    script = MAKEPKG.replace("HOOK", str(HOOKS / "makepkg" / "unwindkit.sh"))
    placed = environment | {"pkgdir": str(root)}
    run(placed, tmp_path, "bash", "-c", script, "makepkg", "!unwindkit")
    assert not has_sframe(root / "usr/bin/twice")
    log = run(placed, tmp_path, "bash", "-c", script, "makepkg")
    assert log.startswith("unwindkit\ntidy_unwindkit\nAdding .sframe sections...\n")
    assert "\nbuilt\n" in log
    check_tree(root)


def test_nix(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    """Of stdenv it has the array of hooks and the names of outputs; Nix itself is not here."""
    root = tmp_path / "root"
    run(environment, source, "make", "install", f"DESTDIR={root}")
    script = STDENV.replace("HOOK", str(HOOKS / "nix" / "setup-hook.sh"))
    placed = environment | {
        "out": str(root),
        "lib": str(tmp_path / "none"),
        "unwindkitFlags": "--exclude usr/bin/plain",
    }
    run(placed | {"dontUnwindkit": "1"}, tmp_path, "bash", "-c", script)
    assert not has_sframe(root / "usr/bin/twice")
    run(placed, tmp_path, "bash", "-c", script)
    check_tree(root)
