"""The parser of the command line: help texts with examples, and errors of two lines that suggest the right word."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, NoReturn

from .common import WRONG

CLOSE = 0.6  # how alike two words are, from 0 to 1


class _Formatter(argparse.HelpFormatter):
    """Lines of text as they are, if there are several."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser, and those of its commands, which are told the width of help texts: argparse would import shutil.
    `given` are all arguments of the command line."""

    given: tuple[str, ...] = ()

    def __init__(self, **options: Any) -> None:
        # The last column is left free, and one more, as by argparse.
        formatter = partial(_Formatter, width=_columns() - 2)
        super().__init__(**{"formatter_class": formatter, **options})

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, the word that was probably meant, and where to read on; exit."""
        unknown = [one for one in self._given_options() if not self._options_like(one)]
        if unknown:
            # Misspelt, it may also be the one that is missing.
            message = f"unrecognized arguments: {' '.join(unknown)}"
        words: Iterable[str] = self._option_string_actions
        if not unknown and (commands := self._commands()) and self.given and self.given[0] not in commands:
            unknown, words = [self.given[0]], commands
            message = f"unknown command: {self.given[0]}"
        if not unknown and (choice := self._wrong_choice(message)):
            unknown, words = [choice[0]], choice[1]
        meant = _similar(unknown, words)
        hint = f"Did you mean {' '.join(meant)}? " if meant else ""
        self.exit(WRONG, f"{self.prog}: error: {message}\n{hint}See {self.prog} --help.\n")

    def _commands(self) -> list[str]:
        """The names of its commands; none if it is the parser of one."""
        groups = [] if self._subparsers is None else self._subparsers._group_actions
        return [str(name) for one in groups for name in one.choices or ()]

    def _wrong_choice(self, message: str) -> tuple[str, list[str]] | None:
        """The value that an argument cannot have, and those that it can, if that is what is wrong."""
        for action in self._actions:
            start = f"argument {argparse._get_action_name(action)}: invalid choice: '"
            if action.choices and message.startswith(start):
                return message.removeprefix(start).partition("'")[0], [str(one) for one in action.choices]
        return None

    def _given_options(self) -> list[str]:
        """The long options on the command line, without their values."""
        given = self.given[: self.given.index("--")] if "--" in self.given else self.given
        return [one.partition("=")[0] for one in given if one.startswith("--")]

    def _options_like(self, word: str) -> list[str]:
        """The options that a word is, or begins."""
        return [one for one in self._option_string_actions if one.startswith(word)]


def _similar(words: list[str], known: Iterable[str]) -> list[str]:
    """For each word the known one that is most like it, if any is."""
    from difflib import get_close_matches

    known = list(known)
    return [found for word in words for found in get_close_matches(word, known, 1, CLOSE)]


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: command lines without the program's name, and what they do."""
    shown = [(f"unwindkit {line}", about) for line, about in lines]
    width = max(len(line) for line, _ in shown)
    return "\n".join(["examples:", *(f"  {line.ljust(width)}  {about}" for line, about in shown)])


def _columns() -> int:
    """The columns of the terminal; 80 if there is none."""
    try:
        return int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (ValueError, OSError):
        return 80
