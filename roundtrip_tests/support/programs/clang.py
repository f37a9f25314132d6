"""clang and lld of Debian, which `.ci/oracles --large` unpacks beside the system: scripts that run them.

Strategy: a script starts a program with its own loader and libraries. clang starts itself again, by the name that it
was started by, so that name is the script's.
"""

from __future__ import annotations

from pathlib import Path

from ..oracles import OracleError, oracle_command, oracle_root

SUITE, VERSION = "large-clang", "19"
_RESOURCES = f"usr/lib/llvm-{VERSION}/lib/clang/{VERSION}"
# Where the script is, not the loader, is where clang is; its headers are not there.
_OF_CLANG = f"-no-canonical-prefixes -resource-dir {oracle_root(SUITE) / _RESOURCES} -Qunused-arguments"
_PROGRAMS = {
    "clang": (f"clang-{VERSION}", _OF_CLANG),
    "clang++": (f"clang++-{VERSION}", _OF_CLANG),
    "ld.lld": (f"ld.lld-{VERSION}", ""),
}


def write_scripts(folder: Path) -> bool:
    """Write the scripts into a new folder; False if the programs are not here."""
    try:
        commands = {name: oracle_command(program, SUITE) for name, (program, _) in _PROGRAMS.items()}
    except OracleError:
        return False
    folder.mkdir()
    for name, command in commands.items():
        script = folder / name
        *loader, _, program = command
        words = " ".join(map(str, [*loader, '"$0"', program]))
        # -cc1 and -cc1as have to be first.
        options = f'case "$1" in -cc1*) ;; *) set -- {_PROGRAMS[name][1]} "$@" ;; esac'
        script.write_text(f'#!/bin/sh\n{options}\nexec {words} "$@"\n')
        script.chmod(0o755)
    return True
