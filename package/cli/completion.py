"""The command completion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..schemas.section import BuildError
from .common import DONE
from .parser import examples

if TYPE_CHECKING:
    from .common import Commands

EXAMPLES = examples(
    ("completion bash > unwindkit.bash", "source it in ~/.bashrc"),
    ("completion zsh > _unwindkit", "for a folder of fpath"),
    ("completion fish > unwindkit.fish", "for ~/.config/fish/completions"),
)
SHELLS = ("bash", "zsh", "fish")
FOLDERS = {"DIR", "STORE"}
# Arguments that are no file: everything else with a metavar is one.
OTHERS = {
    *("N", "KIND", "ADDRESS", "PC|SYMBOL", "SECONDS", "SIZE", "PERCENT", "PATTERN", "NAME", "CODE", "FORMAT", "ARG"),
    *("OLD=NEW", "DIR=REPOSITORY@REVISION", "COMMAND", "SHELL"),
}


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "completion",
        help="print a script by which a shell completes commands, options and files",
        description="Print a script by which a shell completes commands, options and files. "
        "Requires shtab (unwindkit[completion]).",
        epilog=EXAMPLES,
    )
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    command.set_defaults(run=run, command=command, file="completion")


def run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise BuildError("", None, "", "requires shtab: pip install 'unwindkit[completion]'") from None
    from . import PROGRAM, VERSION
    from .commands import parser_of

    parser = parser_of(PROGRAM, VERSION)
    for action in _actions(parser):
        if action.metavar in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar is not None and action.metavar not in OTHERS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser and of its commands, which get a short description."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action._choices_actions:
                # Shells show it in a list of the commands.
                action.choices[one.dest].description = one.help
                yield from _actions(action.choices[one.dest])
        else:
            yield action
