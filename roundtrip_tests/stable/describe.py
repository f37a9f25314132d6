"""What a user may rely on, as data: public names, command lines, exit codes and the shape of JSON.

Strategy: names come from the package's own list, options from its parsers, shapes from what the commands print for one
handmade file. `stable.json` beside it is what was promised; the test compares, and `python -m roundtrip_tests.stable`
writes it again.
"""

from __future__ import annotations

import argparse
import enum
import inspect
import json
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import unwindkit
from unwindkit.cli import common
from unwindkit.cli.commands import COMMANDS, parser_of

from ..support.commands import unwindkit as run
from ..support.linked_elf import START, linked_elf
from ..support.made.cores import Mapped, core_of
from ..support.small_elf import BASE

RSP, RIP, STACK, AT_ENTRY = 7, 16, 0x7FF000000000, 9
# One that reads some sections wrongly.
READER = (sys.executable, "-m", "roundtrip_tests.adapters.wrong_layout")
STORED = Path(__file__).with_name("stable.json")

# Command lines that print JSON of the file, of a core file of it, or of a reader; `verify` prints its VerifyReport,
# field by field.
JSON_COMMANDS = (
    ("info", "FILE", "--json"),
    ("find", "FILE", hex(START), "--json"),
    ("check", "FILE", "--json"),
    ("dump", "FILE", "--frames", "--json"),
    ("dump", "FILE", "--frames-interp", "--json"),
    ("dump", "FILE", "--sframe", "--json"),
    ("symbolize", "FILE", hex(START), "--json"),
    ("explain", "FILE", hex(START), "--json"),
    ("walk", "CORE", "--lines", "--json"),
    ("conform", "--raw", "--format", "sframe-v2", "--count", "1", "--json", "--", *READER),
    ("sframe", "FILE", "--section", "OUT", "--report", "-"),
)


def described(folder: Path) -> dict[str, Any]:
    """All of it; `folder` is an empty folder for files of commands."""
    return {
        "names": {name: _described_name(getattr(unwindkit, name)) for name in sorted(unwindkit.__all__)},
        "commands": {name: _described_command(name) for name in sorted(COMMANDS)},
        "exit codes": {name: getattr(common, name) for name in ("DONE", "DIFFERENT", "WRONG")},
        "json": {
            " ".join(one).replace(sys.executable, "python"): _described_json(one, folder) for one in JSON_COMMANDS
        },
    }


def differences(promised: Any, found: Any, place: str = "") -> list[str]:
    """What is gone, other or new, one line each."""
    if not isinstance(promised, dict) or not isinstance(found, dict):
        return [] if promised == found else [f"{place}: was {promised!r}, is {found!r}"]
    gone = [f"{place}/{key}: gone" for key in promised if key not in found]
    new = [f"{place}/{key}: new" for key in found if key not in promised]
    both = [
        line for key in promised if key in found for line in differences(promised[key], found[key], f"{place}/{key}")
    ]
    return gone + both + new


def _described_name(value: Any) -> Any:
    if inspect.ismodule(value):
        return {name: _described_name(one) for name, one in vars(value).items() if _is_own(value, name, one)}
    if isinstance(value, type):
        return _described_class(value)
    return _signature(value) if callable(value) else type(value).__name__


def _is_own(module: Any, name: str, value: Any) -> bool:
    return not name.startswith("_") and getattr(value, "__module__", "") == module.__name__


def _described_class(value: type) -> dict[str, Any]:
    if issubclass(value, enum.Enum):
        return {member.name: member.value for member in value}
    about: dict[str, Any] = {"bases": [one.__name__ for one in value.__bases__ if one is not object]}
    if is_dataclass(value):
        about["fields"] = {field.name: _annotation(field.type) for field in fields(value)}
    if hasattr(value, "_fields"):  # of a NamedTuple
        about["fields"] = {name: _annotation(value.__annotations__[name]) for name in value._fields}
    methods = {name: one for name, one in vars(value).items() if not name.startswith("_")}
    about["methods"] = {
        name: _signature(one.__func__ if isinstance(one, classmethod | staticmethod) else one)
        for name, one in sorted(methods.items())
        if inspect.isfunction(one) or isinstance(one, classmethod | staticmethod)
    }
    about["properties"] = sorted(name for name, one in methods.items() if isinstance(one, property))
    return about


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _signature(value: Any) -> str:
    """Parameters with their kinds and defaults; annotations as written."""
    signature = inspect.signature(value)
    parts = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_default(parameter.default))
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts, return_annotation=inspect.Signature.empty))


def _default(value: Any) -> Any:
    """Objects are named by their class: their text may be long, or an address."""
    if value is inspect.Parameter.empty or value is None or isinstance(value, bool | int | float | str | tuple):
        return value
    return type(value).__name__


def _described_command(name: str) -> dict[str, Any]:
    groups = parser_of("unwindkit", "", (name,))._subparsers
    assert groups is not None
    commands = groups._group_actions[0].choices
    assert isinstance(commands, dict)
    actions = commands[name]._actions
    return {" ".join(action.option_strings) or action.dest: _described_action(action) for action in actions}


def _described_action(action: argparse.Action) -> dict[str, Any]:
    return {
        "takes": action.nargs if action.nargs is not None else 1,
        "choices": None if action.choices is None else [str(one) for one in action.choices],
        "default": _default(action.default) if not isinstance(action.default, list) else list(action.default),
        # Of positional ones it follows from `takes`; releases of Python differ in it.
        "required": action.required and bool(action.option_strings),
    }


def _described_json(line: tuple[str, ...], folder: Path) -> Any:
    file = folder / "file"
    file.write_bytes(linked_elf())
    core = folder / "core"
    core.write_bytes(_core_of(file))
    places = {"FILE": str(file), "CORE": str(core), "OUT": str(folder / "section")}
    done = run(*(places.get(word, word) for word in line))
    assert done.returncode in {common.DONE, common.DIFFERENT}, done.stderr
    return shape(json.loads(done.stdout))


def _core_of(file: Path) -> bytes:
    """A process of the file that is at its start."""
    memory = {STACK: bytes(64)}
    mapped = [Mapped(BASE, BASE + 0x1000, 0, str(file))]
    return core_of("x86_64", {RIP: START, RSP: STACK}, memory, mapped, {AT_ENTRY: START})


def shape(value: Any) -> Any:
    """Keys and types of a JSON value; a list is the shape that its elements have together, under "[]". So are values
    by address, under "0x"."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, one in value.items():
            name = "0x" if key.startswith("0x") else key
            found[name] = _joined(found.get(name), shape(one))
        return found
    if isinstance(value, list):
        elements: Any = None
        for one in value:
            elements = _joined(elements, shape(one))
        return {"[]": elements}
    return "null" if value is None else type(value).__name__


def _joined(first: Any, second: Any) -> Any:
    if first is None or first == second:
        return second
    if isinstance(first, dict) and isinstance(second, dict):
        return {key: _joined(first.get(key), second.get(key, first.get(key))) for key in first | second}
    names = {word for one in (first, second) for word in (one.split(" or ") if isinstance(one, str) else ["object"])}
    return " or ".join(sorted(names))
