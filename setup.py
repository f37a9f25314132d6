"""The optional part of the build: compiled kernels. Everything else is in pyproject.toml.

Strategy: `converters/kernels/cfi/interpreter.py` is compiled into `_interpreter`, beside it, from a copy in a folder
that is named as the package is: Cython finds one kernel from another by that name. The copies, the C files and the
compiled modules stay in build/; a later build compiles only what changed. Where there is no C compiler, or it fails,
the same files run uncompiled: an installation never fails for want of one.
"""

import os
import shutil
import sys
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

KERNELS = Path("converters/kernels")
PACKAGE = "unwindkit.converters.kernels"
# Cython's memoryview code, once instead of in every kernel.
CYTHON_RUNTIME = f"{PACKAGE}._cyutility"
# Modules have no state, so that a free-threaded Python keeps its lock off. Constructors set every memoryview.
DIRECTIVES = {"freethreading_compatible": True, "initializedcheck": False}
STAGE = Path("build/stage")
COMPILE = ["-O3", "-g0"] if os.name == "posix" else []
LINK = ["-Wl,-s"] if sys.platform == "linux" else []  # no symbol table: nobody debugs what is installed
if "CFLAGS" in os.environ:  # of a distribution, which keeps debug information in packages of its own
    COMPILE, LINK = ["-O3"], []


def stage() -> list[Extension]:
    """Copy the kernels under their compiled names. A copy's time changes with its contents only."""
    made_by = f"Cython {Cython.__version__}\n{Path(__file__).read_text(encoding='utf-8')}"
    stamp = STAGE / "made_by"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != made_by:
        shutil.rmtree(STAGE, ignore_errors=True)
    package = STAGE / PACKAGE.replace(".", "/")
    copies = {folder / "__init__.py": b"" for folder in (package, *package.parents) if STAGE in folder.parents}
    kernels = []
    for source in sorted(KERNELS.rglob("*.pxd")):
        copies[package / source.relative_to(KERNELS)] = source.read_bytes()
    for source in sorted(KERNELS.glob("*/*.py")):
        folder = package / source.parent.name
        if source.name == "__init__.py":
            copies[folder / source.name] = b""
        elif source.name != "protocol.py":  # the same for both engines
            kernels.append(folder / f"_{source.name}")
            copies[kernels[-1]] = source.read_bytes()
    for stale in {*STAGE.rglob("*.py"), *STAGE.rglob("*.pxd")} - set(copies):
        stale.unlink()
    for path, contents in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != contents:
            path.write_bytes(contents)
    stamp.write_text(made_by, encoding="utf-8")
    # The shared code is the largest module: first, so that compilers in parallel end together.
    sources = [package / "_cyutility.c", *kernels]
    return [_extension(source) for source in sources]


def _extension(source: Path) -> Extension:
    name = ".".join(source.relative_to(STAGE).with_suffix("").parts)
    return Extension(name, [str(source)], extra_compile_args=COMPILE, extra_link_args=LINK)


class BuildExtensions(build_ext):
    """As setuptools', but a module of an earlier build is removed when its source has changed, even if that fails."""

    def build_extension(self, extension: Extension) -> None:
        """Build one module."""
        built = Path(self.get_ext_fullpath(extension.name))
        if built.exists() and any(os.path.getmtime(path) > built.stat().st_mtime for path in extension.sources):
            built.unlink()
        super().build_extension(extension)


class Build(build):
    """As setuptools', but without files of earlier builds whose source is gone."""

    def run(self) -> None:
        """Build, then remove what is not one of its outputs."""
        super().run()
        commands: list[Command] = [self.get_finalized_command(name) for name in self.get_sub_commands()]
        outputs = {Path(path) for command in commands for path in command.get_outputs()}
        for path in Path(self.build_lib).rglob("*"):
            if path.is_file() and path not in outputs:
                path.unlink()


if __name__ == "__main__":
    cores = os.cpu_count() or 1
    extensions = cythonize(
        stage(),
        include_path=[str(STAGE)],
        nthreads=cores,
        shared_utility_qualified_name=CYTHON_RUNTIME,
        compiler_directives=DIRECTIVES,
    )
    for extension in extensions:
        extension.optional = True  # cythonize drops this
    setup(
        ext_modules=extensions,
        cmdclass={"build": Build, "build_ext": BuildExtensions},
        options={"build_ext": {"parallel": cores}},
    )
