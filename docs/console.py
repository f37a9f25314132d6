"""Run the blocks of the manual and write what commands print: `python docs/console.py [PAGE...]` (`--check`: compare).

Strategy: each page runs from start to end in a folder of its own: a copy of the files that console_files.sh makes, or
for a tutorial, an empty one. By the language of a block:

- `console`: what its commands print replaces the lines below them; a line `...` stands for any lines. Blocks are left
  alone if their files are made from other versions of programs or libraries than those of the manual.
- `pycon`: its examples have to print what they show. `sh`, `python`: they have to end without an error.

A comment above a block says otherwise: `<!-- file: NAME -->` writes it to a file, `<!-- run by: PATH -->` names the
test that runs it, `<!-- not run: REASON -->`. A page with `<!-- needs: PROGRAM, PATH -->` is not run without these.
"""

from __future__ import annotations

import argparse
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
TUTORIALS = DOCS / "tutorials"
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
LANGUAGES = ("console", "pycon", "sh", "python")
BLOCK = re.compile(r"(?:^<!-- (file|run by|not run): ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = re.compile(r"^<!-- needs: (.+) -->$", re.MULTILINE)
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
        self.absent: list[str] | None = None
        startup = temporary / "startup.sh"
        startup.write_text(STARTUP, encoding="utf-8")
        self.environment = os.environ | {
            "BASH_ENV": str(startup),
            "LC_ALL": "C.UTF-8",
            "ORACLES": os.environ.get("UNWINDKIT_ORACLES") or str(DOCS.parent / ".oracles"),
            "PYTHON": sys.executable,
        }
        self.environment["CARGO_TARGET_DIR"] = self.environment["ORACLES"] + "/crash-dump"

    def folder_for(self, page: Path, folder: Path) -> None:
        """Make the folder in which a page runs."""
        if page.is_relative_to(TUTORIALS):
            folder.mkdir()
            return
        if self.absent is None:
            self.absent = self._make_files()
        shutil.copytree(self.files, folder, symlinks=True)

    def _make_files(self) -> list[str]:
        """Make the files that pages name; returns patterns of blocks whose files are not those of the manual."""
        self.files.mkdir()
        # What cannot be made is absent, and the blocks that name it are left alone.
        self.output(f"bash '{DOCS / 'console_files.sh'}'", self.files)
        return [pattern for pattern, command, digest in ORIGINS if not self.digest(command).startswith(digest)]

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

    def lacks(self, need: str) -> bool:
        """Whether a program, or a file of the oracles, is not here."""
        path = need.replace("$ORACLES", self.environment["ORACLES"])
        return not Path(path).exists() if "/" in path else shutil.which(path) is None

    def can_run(self, block: str) -> bool:
        """Whether the files of a block are here, and those of the manual."""
        return not any(re.search(pattern, block) for pattern in self.absent or ())

    def fails(self, script: str, folder: Path) -> str:
        """What a script prints if it ends with an error, else ""."""
        output = self.output(f"set -e\n{script}\necho '--- done'", folder)
        return "" if output.endswith("--- done\n") else output or "an error\n"

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


class Run:
    """One page as it runs: `ran` blocks, `faults` of those with nothing to compare, `names` that examples share, and
    the program so far, which blocks of Python continue. If one of these cannot run, none after it can."""

    def __init__(self, page: Path, console: Console, folder: Path) -> None:
        self.page, self.console, self.folder = page, console, folder
        self.ran = 0
        self.faults: list[str] = []
        self.names: dict[str, object] = {}
        self.program = ""
        self.is_continuous = True
        console.folder_for(page, folder)

    def text(self) -> str:
        """The page with what its commands print now."""
        return BLOCK.sub(self._block, self.page.read_text(encoding="utf-8"))

    def _block(self, found: re.Match[str]) -> str:
        comment, argument, language, block = found.groups()
        if comment == "file":
            (self.folder / argument).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / argument).write_text(block, encoding="utf-8")
            return found[0]
        in_python = language in ("pycon", "python")
        if comment or language not in LANGUAGES or (in_python and not self.is_continuous):
            return found[0]
        if not self.console.can_run(block):
            self.is_continuous &= not in_python
            return found[0]
        self.ran += 1
        if language == "console":
            return found[0].removesuffix(f"{block}```") + self.console.printed(block, self.folder) + "```"
        self._run(language, block)
        return found[0]

    def _run(self, language: str, block: str) -> None:
        """Run a block whose output is not shown."""
        if language == "pycon":
            fault = (
                ""
                if is_right_python(block, self.names, self.page, self.folder)
                else "an example prints something else\n"
            )
        elif language == "python":
            self.program += block
            (self.folder / "program.py").write_text(self.program, encoding="utf-8")
            fault = self.console.fails("python program.py", self.folder)
        else:
            fault = self.console.fails(block, self.folder)
        if fault:
            self.faults.append(f"{self.page}:\n{block}{fault}")


def rerun(page: Path, console: Console, folder: Path, check: bool) -> tuple[int, bool]:
    """Run a page, write it or compare; returns the number of blocks that ran, and whether something differs."""
    before = page.read_text(encoding="utf-8")
    needs = [need for found in NEEDS.findall(before) for need in found.split(", ")]
    absent = [need for need in needs if console.lacks(need)]
    if absent:
        sys.stdout.write(f"{page}: not run without {', '.join(absent)}\n")
        return 0, False
    run = Run(page, console, folder)
    after = run.text()
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    sys.stdout.write("\n".join([str(page), *lines, ""]) if after != before else "")
    sys.stdout.write("".join(run.faults))
    if after != before and not check:
        page.write_text(after, encoding="utf-8")
    return run.ran, after != before or bool(run.faults)


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        console = Console(Path(name))
        results = [
            rerun(page.resolve(), console, Path(name) / str(number), options.check)
            for number, page in enumerate(options.pages or PAGES)
        ]
    stale = sum(differs for _, differs in results)
    sys.stdout.write(f"{sum(ran for ran, _ in results)} blocks ran, {stale} pages differ\n")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
