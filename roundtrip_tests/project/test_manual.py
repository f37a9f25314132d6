"""The blocks of the manual run: docs/console.py runs them and compares what commands print; tutorials from nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
TUTORIALS = tuple(sorted((DOCS / "tutorials").glob("*.md")))
# A comment, the language and the text of each block.
BLOCK = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = ("console", "pycon", "sh", "python")


def check(*pages: Path) -> str:
    """What docs/console.py says of some pages, which have to be up to date."""
    command = [sys.executable, str(DOCS / "console.py"), "--check", *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_of_the_manual_run_and_show_what_the_commands_print() -> None:
    """Blocks whose files come from other versions of the system's programs and libraries are not checked."""
    check(*(page for page in PAGES if page not in TUTORIALS))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_from_start_to_end(page: Path) -> None:
    said = check(page)
    if "not run without" in said:
        pytest.skip(f"{said.splitlines()[0]} (.ci/oracles)")


def test_every_block_is_run_or_says_why_not() -> None:
    """A block without output of its own is run, too, unless a comment above it names a test, or a reason."""
    for page in PAGES:
        for comment, language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            kind, _, argument = comment.partition(": ")
            if kind == "run by":
                assert (ROOT / argument).is_file(), f"{page}: {argument}"
            if language not in RUN:
                assert not text.startswith("$ "), f"{page}: a block of commands is not called `console`: {text[:60]}"
            elif kind == "not run":
                assert len(argument) > 10, f"{page}: {text[:60]}"


def test_tests_that_show_faults_of_other_tools_exist() -> None:
    named = re.findall(r"`(test_\w+)`", (DOCS / "other-tools.md").read_text(encoding="utf-8"))
    defined = {
        name
        for path in (ROOT / "roundtrip_tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 5
    assert not set(named) - defined


def test_every_public_name_has_a_page_of_the_api_reference() -> None:
    script = "import api; api.names_pages()"
    done = subprocess.run([sys.executable, "-c", script], cwd=DOCS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
