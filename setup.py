"""The optional part of the build: compiled kernels.

Everything else stands in pyproject.toml. Where there is no C compiler, or it fails, the same files run
uncompiled: an installation never fails for want of one. `rows.py` is compiled into `_rows`, beside it,
from a copy whose folders are named as the package is, which is how Cython finds one kernel from another.
"""

import os
import shutil
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = (
    "reads",
    "entries",
    "operands",
    "states",
    "rows",
    "opcodes",
    "streams",
    "numbering",
    "stack_cfi",
    "symbol_lines",
    "projection",
    "fres",
    "sharing",
    "lookup",
    "flex",
    "grouping",
    "instructions",
    "pieces",
    "writes",
    "lines",
    "values",
    "line_entries",
    "line_encoding",
    "line_events",
    "templates",
    "sets",
    "macros",
)
SOURCE = Path("converters/kernels")
STAGE = Path("build/stage")


def stage() -> list[Extension]:
    """Copy the kernels under their compiled names."""
    package = STAGE / "unwindkit/converters/kernels"
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package, *package.parents):
        if folder == STAGE:
            break
        (folder / "__init__.py").touch()
    extensions = []
    for name in KERNELS:
        shutil.copy2(SOURCE / f"{name}.py", package / f"_{name}.py")
        if (SOURCE / f"_{name}.pxd").exists():
            shutil.copy2(SOURCE / f"_{name}.pxd", package)
        extensions.append(
            Extension(f"unwindkit.converters.kernels._{name}", [str(package / f"_{name}.py")], optional=True)
        )
    return extensions


cores = os.cpu_count() or 1
setup(
    ext_modules=cythonize(stage(), include_path=[str(STAGE)], nthreads=cores),
    options={"build_ext": {"parallel": cores}},
)
