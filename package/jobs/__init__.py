"""Whole jobs, from a file to a file with a report, a file each: a command of the command line is one call from here.

Strategy: converters and writers do not know each other; here they meet. The jobs have a folder of their own because
a module `unwindkit.convert` would hide the public function of that name: importing a submodule sets the attribute of
its package.
"""

from __future__ import annotations

import os
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
