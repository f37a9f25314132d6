"""Help texts, wrong usage, completion and man pages."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from unwindkit.cli.commands import COMMANDS, parser_of

from ..support.commands import DONE, NOT_ELF, WRONG, unwindkit, usage_error
from ..support.linked_elf import linked_elf

ROOT = Path(__file__).parents[2]
WIDTH = 80


def help_text(command: str) -> str:
    """As on a terminal of 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "unwindkit", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": str(WIDTH)},
    )
    return done.stdout


def examples(text: str) -> list[str]:
    """The command lines at the end of a help text, which are followed by two spaces and what they do."""
    _, _, shown = text.partition("\nexamples:\n")
    return [re.split(" {2,}", line.strip())[0] for line in shown.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_examples_that_can_be_run(command: str) -> None:
    text = help_text(command)
    assert max(map(len, text.partition("\nexamples:\n")[2].splitlines())) < WIDTH
    found = examples(text)
    assert found
    for line in found:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert (program, words[0]) == ("unwindkit", command)
        parsed, unknown = parser_of("unwindkit", "", (command,)).parse_known_args(words)
        assert (parsed.run.__module__, unknown) == (f"unwindkit.cli.{command}", [])


@pytest.mark.parametrize("arguments", [["info", "/bin/ls"], ["--help"], ["--version"], ["dump", "--frames", "/bin/ls"]])
def test_a_reader_that_is_gone_is_no_error(arguments: list[str]) -> None:
    """Also where all output fits the buffer."""
    reading, writing = os.pipe()
    os.close(reading)
    # Unbuffered, all output shows a closed pipe at once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "unwindkit", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, env=environment)
    os.close(writing)
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["sframee"], "unwindkit: error: unknown command: sframee", "Did you mean sframe? See unwindkit --help."),
        (["xyz"], "unwindkit: error: unknown command: xyz", "See unwindkit --help."),
        (
            ["sframe", "a", "--outptu", "b"],
            "unwindkit sframe: error: unrecognized arguments: --outptu",
            "Did you mean --output-dir? See unwindkit sframe --help.",
        ),
        (
            ["dump", "a", "--frames-intrep", "--zzz=1"],
            "unwindkit dump: error: unrecognized arguments: --frames-intrep --zzz",
            "Did you mean --frames-interp? See unwindkit dump --help.",
        ),
        (
            ["convert", "a", "b", "--to", "eh_fram"],
            "unwindkit convert: error: argument --to: invalid choice: 'eh_fram' (choose from ",
            "Did you mean eh_frame? See unwindkit convert --help.",
        ),
        (
            ["sframe", "a", "-o", "b", "-qv"],
            "unwindkit sframe: error: argument -v/--verbose: not allowed with argument -q/--quiet",
            "See unwindkit sframe --help.",
        ),
        (
            ["verify", "--steps", "x", "--", "ls", "--setps"],
            "unwindkit verify: error: argument --steps: invalid int value: 'x'",
            "See unwindkit verify --help.",
        ),
        ([], "unwindkit: error: the following arguments are required: COMMAND", "See unwindkit --help."),
    ],
)
def test_wrong_words_suggest_the_right_ones(arguments: list[str], error: str, hint: str) -> None:
    done = unwindkit(*arguments)
    # Releases of Python differ in how they list the choices.
    assert usage_error(done)[: len(error)] == error
    assert done.stderr.splitlines()[1] == hint


BASH = """
source "$1"; shift
handler=$(complete -p unwindkit | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$handler unwindkit "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module", name="script")
def _script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = unwindkit("completion", "bash")
    assert (done.returncode, done.stderr) == (DONE, "")
    script = tmp_path_factory.mktemp("completion") / "unwindkit.bash"
    script.write_text(done.stdout)
    return script


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sf"], ["sframe"]),
        (["sframe", "--out"], ["--output-dir"]),
        (["sframe", "--compact", ""], ["none", "share", "merge"]),
        (["sframe", "pro"], ["program", "projects"]),
        (["sframe", "--output-dir", "pro"], ["projects"]),
        (["dump", "--at", "main", "progr"], ["program"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes_commands_options_values_and_files(
    words: list[str], expected: list[str], script: Path, tmp_path: Path
) -> None:
    (tmp_path / "program").touch()
    (tmp_path / "projects").mkdir()
    found = subprocess.run(
        ["bash", "-c", BASH, "bash", str(script), "unwindkit", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert sorted(found.stdout.split()) == sorted(expected)


@pytest.mark.oracle("zsh", "fish")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_read_their_scripts(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(unwindkit("completion", shell).stdout)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_requires_shtab(tmp_path: Path) -> None:
    (tmp_path / "shtab.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, "-m", "unwindkit", "completion", "bash"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr == "unwindkit: completion: requires shtab: pip install 'unwindkit[completion]'\n"


@pytest.mark.oracle("help2man", "groff")
def test_man_pages_are_made_and_shown_without_warnings(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    assert shutil.which("unwindkit", path=str(folder))
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([ROOT / "packaging" / "man", tmp_path], check=True, env=os.environ | {"PATH": path})
    pages = sorted(tmp_path.iterdir())
    assert [one.name for one in pages] == sorted(["unwindkit.1", *(f"unwindkit-{name}.1" for name in COMMANDS)])
    for page in pages:
        shown = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-P-c", str(page)], capture_output=True, text=True, check=True
        )
        assert shown.stderr == ""
        plain = re.sub(".\b", "", shown.stdout)
        headings = [line for line in plain.splitlines() if line.isupper() and line.isalpha()]
        names = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]
        assert headings == names + (["EXAMPLES"] if page.name != "unwindkit.1" else [])


def test_a_quiet_command_prints_warnings_and_errors_only(built_program: Path, tmp_path: Path) -> None:
    program = built_program
    symbols, section, plain = tmp_path / "sym", tmp_path / "bin", tmp_path / "plain"
    for arguments in (
        ("sframe", program, "-o", tmp_path / "out"),
        ("sframe", program, "--section", section),
        ("sframe", program, tmp_path / "out", "--output-dir", tmp_path / "many"),
        ("breakpad", program, "-o", symbols),
        ("breakpad", program, "--store", tmp_path / "store", "--zip", tmp_path / "zip"),
        ("convert", symbols, section, "--to", "sframe"),
        ("convert", program, section, "--to", "debug_line", "--section"),
        ("remove", tmp_path / "out", "-o", plain),
        ("merge", tmp_path / "many" / "out", "-o", section),
        ("edit", program, "-o", plain, "--drop", "main"),
        ("corpus", "-o", tmp_path / "cases", "--count", "3"),
    ):
        said = unwindkit(*arguments)
        done = unwindkit(*arguments, "--quiet")
        assert (done.returncode, done.stdout, done.stderr) == (DONE, "", ""), arguments
        assert (said.returncode, said.stderr != "") == (DONE, True), arguments
    signed = tmp_path / "signed"
    signed.write_bytes(program.read_bytes() + b"~Module signature appended~\n")
    broken = tmp_path / "broken"
    broken.write_bytes(program.read_bytes()[:100])
    done = unwindkit("sframe", "-q", signed, broken, "--output-dir", tmp_path / "more")
    assert done.returncode == WRONG
    first, second = done.stderr.splitlines()
    assert first.startswith(f"unwindkit: {signed}: warning: the file is signed")
    assert second.startswith(f"unwindkit: {broken}: ")


TIME = r" *\d+\.\d{3} s"


def test_verbose_tells_files_engine_threads_and_steps(tmp_path: Path) -> None:
    """On standard error; what is printed otherwise is the same."""
    file, out = tmp_path / "file", tmp_path / "out"
    file.write_bytes(linked_elf())
    plain, told = unwindkit("info", file), unwindkit("info", file, "--verbose")
    assert (told.returncode, told.stdout, plain.stderr) == (DONE, plain.stdout, "")
    first, opened, debug, *steps, last = told.stderr.splitlines()
    assert re.fullmatch(r" {11}unwindkit \S+, Python \S+, (compiled|pure) kernels, \d+ threads?", first)
    assert re.fullmatch(rf" {{11}}{file}: ET_EXEC, EM_X86_64, {file.stat().st_size:,} bytes, \d+ sections", opened)
    assert debug == f"           {file}: no debug file"
    assert [re.sub(TIME, "", one) for one in steps] == [
        "  entries of .eh_frame: 1 CIEs, 2 FDEs",
        "  rows of .eh_frame: 2 distinct runs, 3 rows in them",
        "  rows of .sframe: 2 FDEs, 3 distinct FREs",
    ]
    assert re.fullmatch(TIME + "  in all", last)
    lines = unwindkit("sframe", file, "-o", out, "-v").stderr.splitlines()
    assert f"           written: {out}" in lines
    # The rows of the second function are the first ones of the other.
    assert "  .sframe version 2, share: 2 FDEs, 2 FREs, 0 ranges refused" in [re.sub(TIME, "", one) for one in lines]


def test_verbose_tells_the_debug_file(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    for one in (file, other):
        one.write_bytes(linked_elf())
    lines = unwindkit("info", file, "-v", "--debug-file", other).stderr.splitlines()
    assert f"           {file}: debug file {other}" in lines


def test_every_command_can_be_verbose() -> None:
    groups = parser_of("unwindkit", "")._subparsers
    assert groups is not None
    commands = groups._group_actions[0].choices
    assert isinstance(commands, dict)
    for name in COMMANDS:
        assert {"-v", "--verbose"} <= commands[name]._option_string_actions.keys()


def test_messages_say_what_to_do_next(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("some notes")
    for arguments, says in (
        (("info", text), NOT_ELF),
        (("symbolize", text, "0x10"), "not an ELF file"),
        (("find", text, "0x10", "--from", "eh_frame"), r".*architecture: is missing: .*; it is given by --arch"),
        (("check", text), r"source: is missing: .*; it is given by --from"),
        (("sframe", tmp_path, "-o", tmp_path / "out"), "Is a directory; a folder requires --output-dir"),
    ):
        done = unwindkit(*arguments)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert re.fullmatch(f"unwindkit: {arguments[1]}: {says}\n", done.stderr), done.stderr
