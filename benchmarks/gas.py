"""What GNU as and ld 2.47 make of the functions of a finished file: their own SFrame V3, to hold ours against.

Strategy: as writes `.sframe` from CFI directives alone. So the rows of `.eh_frame` become directives again, at
addresses as far apart, in an assembler source whose code is a section without contents; as encodes, ld links.
Directives say what changes from row to row, as compilers' do, but remember no states: as loses nested ones.

Run as `python -m benchmarks.gas FILE FOLDER`: what is made goes to FOLDER, the figures to standard output as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from unwindkit import Row, UnwindTable, from_sframe, read_elf
from unwindkit.converters.elf import open_elf
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.unwind import CfaRule, FunctionFlag, RegisterRule

from roundtrip_tests.oracles import oracle_command

from .cases import GasSection
from .measure import version_line

# What holds where .cfi_startproc begins.
_INITIAL = {
    "x86_64": Row(0, CfaRule(CfaKind.REGISTER, 7, 8), (RegisterRule(16, RuleKind.OFFSET, -8),)),
    "aarch64": Row(0, CfaRule(CfaKind.REGISTER, 31, 0)),
    "s390x": Row(0, CfaRule(CfaKind.REGISTER, 15, 160)),
}
_RULES = {
    RuleKind.UNSPECIFIED: " .cfi_restore {0}\n",
    RuleKind.UNDEFINED: " .cfi_undefined {0}\n",
    RuleKind.SAME_VALUE: " .cfi_same_value {0}\n",
    RuleKind.OFFSET: " .cfi_offset {0}, {1}\n",
    RuleKind.VAL_OFFSET: " .cfi_val_offset {0}, {1}\n",
    RuleKind.REGISTER: " .cfi_register {0}, {1}\n",
}
_DEF_CFA_EXPRESSION = 0x0F  # DW_CFA_def_cfa_expression; the others have a register before the block
_EXPRESSIONS = {RuleKind.EXPRESSION: 0x10, RuleKind.VAL_EXPRESSION: 0x16}
_SIGNS = {RaState.SIGNED: " .cfi_negate_ra_state\n", RaState.SIGNED_WITH_PC: " .cfi_negate_ra_state_with_pc\n"}
SHIFT = 0x4000_0000  # what is added to each address: what ld puts before the code has room there
_SECTION = ".again"


def assembler_source(table: UnwindTable) -> Iterator[str]:
    """A line, and a piece for each function in order of addresses; one that starts before the end of the last is left
    out."""
    functions = table.functions
    order = [index for index in np.argsort(functions.start, kind="stable").tolist() if functions.size[index]]
    bodies = {int(run): _body(table, int(run)) for run in np.unique(functions.run[order])}
    place = int(functions.start[order[0]])
    yield f' .section {_SECTION}, "ax", @nobits\n'
    for index in order:
        start, size = int(functions.start[index]), int(functions.size[index])
        if start >= place:
            body, last = bodies[int(functions.run[index])]
            begin = _skip(start - place) + " .cfi_startproc\n" + _marks(table, index)
            yield begin + body + _skip(size - last) + " .cfi_endproc\n"
            place = start + size


def _skip(count: int) -> str:
    return f" .skip {count}\n" * (count > 0)


def _marks(table: UnwindTable, index: int) -> str:
    """What holds for a whole function."""
    flags, column = FunctionFlag(table.functions.flags[index]), int(table.functions.return_column[index])
    return (
        " .cfi_signal_frame\n" * (FunctionFlag.SIGNAL_FRAME in flags)
        + " .cfi_b_key_frame\n" * (FunctionFlag.PAUTH_B_KEY in flags)
        + f" .cfi_return_column {column}\n" * (column != table.architecture.return_address)
    )


def _body(table: UnwindTable, run: int) -> tuple[str, int]:
    """The directives of a run's rows, and the offset of the last."""
    state = initial = _INITIAL[table.architecture.name]
    lines: list[str] = []
    for row in table.run(run):
        lines += _skip(row.offset - state.offset), _changes(state, row, initial)
        state = row
    return "".join(lines), state.offset


def _changes(before: Row, row: Row, initial: Row) -> str:
    """The directives that lead from one row to the next."""
    had, has, first = ({rule.register: rule for rule in one.registers} for one in (before, row, initial))
    # .cfi_restore gives back what the function began with, which for some registers is a rule.
    gone = [
        RegisterRule(register, RuleKind.SAME_VALUE if register in first else RuleKind.UNSPECIFIED)
        for register in had.keys() - has.keys()
    ]
    changed = [rule for register, rule in has.items() if had.get(register) != rule]
    sign = "" if row.ra_state is before.ra_state else _SIGNS[max(row.ra_state, before.ra_state)]
    return _cfa(before.cfa, row.cfa) + "".join(map(_rule, sorted([*gone, *changed]))) + sign


def _cfa(before: CfaRule, cfa: CfaRule) -> str:
    if cfa == before:
        return ""
    if isinstance(cfa.value, bytes):
        return _escape(_DEF_CFA_EXPRESSION, cfa.value)
    if cfa.kind is CfaKind.NONE:
        raise ValueError("no directive says that there is no CFA")
    if before.kind is cfa.kind and before.register == cfa.register:
        return f" .cfi_def_cfa_offset {cfa.value}\n"
    if before.kind is cfa.kind and before.value == cfa.value:
        return f" .cfi_def_cfa_register {cfa.register}\n"
    return f" .cfi_def_cfa {cfa.register}, {cfa.value}\n"


def _rule(rule: RegisterRule) -> str:
    if isinstance(rule.value, bytes):
        return _escape(_EXPRESSIONS[rule.kind], rule.value, rule.register)
    return _RULES[rule.kind].format(rule.register, rule.value)


def _escape(opcode: int, expression: bytes, *registers: int) -> str:
    """An instruction with a DWARF expression; its operands are LEB128, of one byte where they are below 128."""
    assert max(len(expression), *registers, 0) < 0x80
    return f" .cfi_escape {', '.join(map(hex, (opcode, *registers, len(expression), *expression)))}\n"


def reassembled(path: Path, folder: Path) -> GasSection:
    """Make `again.so` in a folder of the functions of a file. Raises OracleError, CalledProcessError."""
    table = read_elf(path)
    prefix = f"{table.architecture.name}-linux-gnu-"  # Debian's names; the host's own programs have one, too
    source, made, linked = (folder / f"again.{suffix}" for suffix in ("s", "o", "so"))
    pieces = 0
    with source.open("w") as file:
        for piece in assembler_source(table):
            pieces += file.write(piece) > 0
    has_code = table.functions.size > 0
    start = f"--section-start={_SECTION}={int(table.functions.start[has_code].min()) + SHIFT:#x}"
    _run(*oracle_command(f"{prefix}as"), "--gsframe-3", "--no-warn", source, "-o", made)
    _run(*oracle_command(f"{prefix}ld"), "-shared", start, made, "-o", linked)
    image = open_elf(linked)
    sframe = image.contents(image.named(".sframe")[0])
    functions = pieces - 1
    refused = functions - len(from_sframe(sframe.data, sframe.address))
    version = version_line(*map(str, oracle_command(f"{prefix}as")), "--version")
    return GasSection(version, len(sframe), functions, refused, int(has_code.sum()) - functions)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    print(json.dumps(asdict(reassembled(Path(sys.argv[1]), Path(sys.argv[2])))))
