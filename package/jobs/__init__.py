"""The function that does the work of each command: it reads files, writes files and returns a report.

Strategy: converters and writers do not import each other; this package combines them. It is a folder of its own
because a module `unwindkit.convert` would hide the public function of that name: importing a submodule sets the
attribute of its package.
"""

from __future__ import annotations

import os
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
