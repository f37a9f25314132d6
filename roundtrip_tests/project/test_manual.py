"""The manual shows the real output of commands: docs/console.py runs its console blocks and its examples in Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_console_blocks_of_the_manual_show_what_the_commands_print() -> None:
    """Blocks whose files come from other versions of the system's programs and libraries are not checked."""
    done = subprocess.run(
        [sys.executable, str(DOCS / "console.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
