"""A STACK WIN record as STACK CFI rules: its program run on unknown values (Breakpad, docs/symbol_files.md).

Strategy: a value is the words of a postfix expression of the frame's registers, and a number to add. So the sums of a
program become one, and an address relative to the CFA shows. `$esp` of the caller is the CFA.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ...schemas.breakpad.records import CFA_NAME, RA_NAME, StackWin
from ...schemas.breakpad.values import LOAD
from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ..refusals import Reason
from .postfix.evaluate import OPERATORS
from .postfix.machine import Algebra, WordError, run_words
from .stack_win import CALLEE_PARAMETERS, EVALUATED, RESULTS, SEARCH_STARTS, WORD_SIZE, frame_size, program_of, sizes_of

_LIMIT = 1 << 8 * WORD_SIZE
# Real programs need less than 10 words for a value; a variable that is added to itself doubles them each time.
MAX_WORDS = 100


@dataclass(frozen=True, slots=True)
class Sum:
    """`words`, a postfix expression, none for 0, plus `constant`, modulo the word size. If the words end by reading
    memory, `loaded` is the address that is read."""

    words: tuple[str, ...]
    constant: int
    loaded: Sum | None = None

    def expression(self) -> tuple[str, ...]:
        """The words of the whole value."""
        number = self.constant if self.constant < _LIMIT // 2 else self.constant - _LIMIT
        if not self.words:
            return (str(number),)
        return (*self.words, str(number), "+") if number else self.words

    def plus(self, number: int) -> Sum:
        """The sum with a number."""
        return Sum(self.words, (self.constant + number) % _LIMIT, self.loaded)


class _TooLongError(WordError):
    """A value of more than MAX_WORDS words."""


def _compound(*words: str, loaded: Sum | None = None) -> Sum:
    if len(words) > MAX_WORDS:
        raise _TooLongError
    return Sum(words, 0, loaded)


def _binary(word: str, left: Sum, right: Sum) -> Sum:
    if not left.words and not right.words:
        return Sum((), OPERATORS[word](left.constant, right.constant) % _LIMIT)
    if word in "+-":
        constant = left.constant + (right.constant if word == "+" else -right.constant)
        if not right.words:
            return left.plus(constant - left.constant)
        if word == "+" and not left.words:
            return right.plus(left.constant)
        if word == "-" and left.words == right.words:
            return Sum((), constant % _LIMIT)
        return _compound(*(left.words or ("0",)), *right.words, word).plus(constant)
    return _compound(*left.expression(), *right.expression(), word)


_SUMS = Algebra(
    WORD_SIZE,
    number=lambda value: Sum((), value),
    binary=_binary,
    load=lambda address: _compound(*address.expression(), LOAD, loaded=address),
)


@cache
def _sums_of(registers: tuple[str, ...]) -> dict[str, Sum]:
    """The unknown value of each register."""
    return {name: Sum((name,), 0) for name in registers}


def win_rules(record: StackWin, registers: Iterable[str], next_parameter_size: int) -> dict[str, str] | Reason:
    """The rules of the record: `.cfa`, `.ra`, and the registers that it recovers; or why there are none.

    `registers` are those that a program can refer to. `next_parameter_size`: as in `caller_by_stack_win`.
    """
    if record.type not in EVALUATED:
        return Reason.WIN_TYPE
    sizes = {name: Sum((), size % _LIMIT) for name, size in sizes_of(record, next_parameter_size).items()}
    names = _sums_of(tuple(registers)) | sizes
    start = names["$esp"].plus(frame_size(record, next_parameter_size))
    try:
        stack, assigned = run_words(program_of(record), names | dict.fromkeys(SEARCH_STARTS, start), _SUMS)
    except ParseError as error:
        return Reason.WIN_LENGTH if isinstance(error.__context__, _TooLongError) else Reason.WIN_PROGRAM
    if stack:
        return Reason.WIN_PROGRAM
    if "$eip" not in assigned or "$esp" not in assigned:
        return Reason.WIN_RESULT
    cfa = assigned["$esp"]
    rules = {CFA_NAME: " ".join(cfa.expression()), RA_NAME: _rule(assigned["$eip"], cfa)}
    for name in RESULTS[2:]:
        if name in assigned:
            rules[name] = name if assigned[name] == Sum((name,), 0) else _rule(assigned[name], cfa)
    return rules


def uses_callee(record: StackWin) -> bool:
    """Whether the program mentions a variable that depends on the parameters of the called function."""
    program = program_of(record)
    return any(name in program for name in (*SEARCH_STARTS, CALLEE_PARAMETERS))


def _rule(value: Sum, cfa: Sum) -> str:
    """The rule for a register's value, relative to the CFA where it or the address of its slot is."""
    if value.loaded is None or value.constant or value.words == cfa.words:
        return _from_cfa(value, cfa)
    return f"{_from_cfa(value.loaded, cfa)} {LOAD}"


def _from_cfa(value: Sum, cfa: Sum) -> str:
    if not value.words or value.words != cfa.words:
        return " ".join(value.expression())
    offset = (value.constant - cfa.constant) % _LIMIT
    return f"{CFA_NAME} {offset if offset < _LIMIT // 2 else offset - _LIMIT} +"
