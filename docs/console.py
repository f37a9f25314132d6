"""Write what the commands in the manual print: `python docs/console.py` (`--check`: only compare).

Strategy: console_files.sh makes the files that the pages name. Each page runs in a copy of their folder, command by
command, and what is printed replaces the lines below the command; a line `...` stands for any lines. Blocks are left
alone if their files are made from other versions of programs or libraries than those of the manual.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
BLOCK = re.compile(r"(?<=^```)(console|pycon)\n(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
PROMPT, ANY_LINES = "$ ", "..."
STARTUP = 'unwindkit() { "$PYTHON" -m unwindkit "$@"; }\npython() { "$PYTHON" "$@"; }\n'
SYSTEM_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Files that blocks name: a pattern, a command that prints what they are made from, and the start of its SHA-256.
ORIGINS = (
    (r"/bin/ls|\bls\.|\bcat\.|\bbin\b|broken|damaged|truncated", "cat /bin/ls /bin/cat", "8f5bd64138520b24"),
    (
        r"hello|\ba\.out|\bprogram\b(?! header)|\b[ab]\.so|none|crti|ls\.debug",
        f"gcc --version; as --version; cat {SYSTEM_LIBRARIES}/crt*.o",
        "0389eb3c8ce3fd26",
    ),
    (r"\bframes\b", "g++ --version; as --version", "cc3cb76635d51dc9"),
    (r"libgcc", "cat /usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a", "525f1bab26ddfe18"),
    (r"lib\{c", f"cat {SYSTEM_LIBRARIES}/lib{{c,stdc++}}.so.6", "3c40ce7aeef10161"),
    # The sizes of Parquet files.
    (r"unwindkit export", '"$PYTHON" -c "import pyarrow; print(pyarrow.__version__)"', "dccfe05dc2d97445"),
    (r"libc\.debug", "cat libc.debug", "fef7a82e85159caf"),
)


class Console:
    """Runs commands with the interpreter that runs this file, and knows the folder with the files of the manual."""

    def __init__(self, temporary: Path) -> None:
        self.files = temporary / "files"
        startup = temporary / "startup.sh"
        startup.write_text(STARTUP, encoding="utf-8")
        self.environment = os.environ | {
            "BASH_ENV": str(startup),
            "LC_ALL": "C.UTF-8",
            "ORACLES": os.environ.get("UNWINDKIT_ORACLES") or str(DOCS.parent / ".oracles"),
            "PYTHON": sys.executable,
        }
        self.files.mkdir()
        # What cannot be made is absent, and the blocks that name it are left alone.
        self.output(f"bash '{DOCS / 'console_files.sh'}'", self.files)
        self.absent = [pattern for pattern, command, digest in ORIGINS if not self.digest(command).startswith(digest)]

    def digest(self, command: str) -> str:
        """The SHA-256 of what a command prints."""
        return hashlib.sha256(self.output(command, self.files).encode(errors="surrogateescape")).hexdigest()

    def output(self, command: str, folder: Path) -> str:
        """What a command prints, on standard output and standard error."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode(errors="surrogateescape")

    def can_run(self, block: str) -> bool:
        """Whether a block shows output, and its files are here."""
        shows = any(line and not line.startswith(PROMPT) for line in block.splitlines())
        return shows and not any(re.search(pattern, block) for pattern in self.absent)

    def printed(self, block: str, folder: Path) -> str:
        """A block with what its commands print now."""
        return "".join(
            f"{PROMPT}{command}\n" + with_any_lines(shown, self.output(command, folder))
            for command, shown in commands_of(block)
        )


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, and the lines below it."""
    for text in re.split(rf"^{re.escape(PROMPT)}", block, flags=re.MULTILINE)[1:]:
        command, _, shown = text.partition("\n")
        yield command, shown


def with_any_lines(shown: str, output: str) -> str:
    """The output of a command, or what is shown of it if that leaves out lines and is otherwise right."""
    output += "\n" * (output != "" and not output.endswith("\n"))
    pattern = "".join("(.*\n)*" if line.strip() == ANY_LINES else re.escape(line) + "\n" for line in shown.splitlines())
    return shown if re.fullmatch(pattern, output) else output


def is_right_python(block: str, names: dict[str, object], page: Path, folder: Path) -> bool:
    """Whether the examples of a block print what they show."""
    test = doctest.DocTestParser().get_doctest(block, names, str(page), str(page), 0)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as report:
        failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
    names |= test.globs
    sys.stderr.write(report.getvalue())
    return not failed


def rerun(page: Path, console: Console, folder: Path) -> tuple[str, int, int]:
    """A page with what its commands print now; the number of blocks that ran, and of examples in Python that fail."""
    shutil.copytree(console.files, folder, symlinks=True)
    ran = failed = 0
    names: dict[str, object] = {}  # of the page's examples in Python: one continues another
    is_continuous = True

    def replaced(found: re.Match[str]) -> str:
        nonlocal ran, failed, is_continuous
        language, block = found.groups()
        if not console.can_run(block) or (language == "pycon" and not is_continuous):
            is_continuous &= language != "pycon"
            return found[0]
        ran += 1
        if language == "console":
            return f"{language}\n{console.printed(block, folder)}"
        failed += not is_right_python(block, names, page, folder)
        return found[0]

    return BLOCK.sub(replaced, page.read_text(encoding="utf-8")), ran, failed


def main() -> int:
    """Write, or compare."""
    stale = total = 0
    with tempfile.TemporaryDirectory() as name:
        console = Console(Path(name))
        for number, page in enumerate(PAGES):
            text, ran, failed = rerun(page, console, Path(name) / str(number))
            total += ran
            before = page.read_text(encoding="utf-8")
            if text != before or failed:
                stale += 1
                lines = difflib.unified_diff(before.splitlines(), text.splitlines(), n=1, lineterm="")
                sys.stdout.write("\n".join([str(page), *lines, ""]))
            if text != before and "--check" not in sys.argv:
                page.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{total} blocks ran, {stale} pages differ\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
