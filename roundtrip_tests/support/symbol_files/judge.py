"""How far names and lines of a file agree with the referees: at sampled addresses, with every difference's kind.

Strategy: no product code. Addresses are drawn from the executable sections. What counts is where two referees agree:
the subject (a symbol file, or anything else that answers for addresses) must then say the same. A third one is heard
where the first two differ.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from .names import is_fuller, match
from .records import Frame
from .referees import REFEREES, Chains, Referee, aliases, ask, executable_ranges, hide_symbols, normalize_path

Chain = tuple[Frame, ...]
Subject = Callable[[int], Chain]
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Answers:
    """What two referees say about addresses of a file, which are in ascending order.

    Where the two differ and the third agrees with one of them, its answer has the place of the other's; `settled`
    counts these addresses by that name.
    """

    addresses: tuple[int, ...]
    names: tuple[str, str]
    first: Chains
    second: Chains
    aliases: dict[str, frozenset[str]] = field(default_factory=dict)
    settled: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """Counts of one subject and one file; a difference is counted by its kind, with a few examples.

    `aliased` are equal but for the function's name, which is another one of the symbol table for the same address.
    `sampled` addresses are inside functions that DWARF names; `innermost` and `chains` are those of them where the
    referees agree; `undecided` counts whom the subject follows where they do not.
    """

    sampled: int = 0
    innermost: int = 0
    innermost_equal: int = 0
    chains: int = 0
    chains_equal: int = 0
    lost: int = 0
    aliased: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    undecided: Counter[str] = field(default_factory=Counter)

    def differ(self, kind: str, address: int, said: Chain, expected: Chain) -> None:
        """Count a difference; the first ones of a kind are kept."""
        self.kinds[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{address:#x}: {chain_text(said)}, not {chain_text(expected)}")

    def share(self) -> tuple[float, float]:
        """Equal answers per agreed one: of the innermost frame, and of whole chains."""
        return self.innermost_equal / max(self.innermost, 1), self.chains_equal / max(self.chains, 1)


def sample(path: Path, count: int, seed: int) -> list[int]:
    """Addresses in the executable sections, ascending, without repetition."""
    ranges = list(executable_ranges(path))
    chosen = random.Random(seed)
    drawn = chosen.choices(ranges, [size for _, size in ranges], k=count) if ranges else []
    return sorted({start + chosen.randrange(size) for start, size in drawn})


def consult(path: Path, addresses: Sequence[int], folder: Path, referees: tuple[Referee, ...] = REFEREES) -> Answers:
    """Ask two or three referees, the third only where the others differ: eu-addr2line takes minutes for a large file.
    `folder` is for a copy of the file that has the debugging information."""
    hidden = hide_symbols(path, folder)
    first, second = (ask(one, path if one.needs_symbols else hidden, addresses) for one in referees[:2])
    names = (referees[0].name, referees[1].name)
    answers = Answers(tuple(addresses), names, first, second, aliases(path))
    unsettled = [index for index in range(len(addresses)) if not _same_chain(first[index], second[index])]
    for third in referees[2:] if unsettled else ():
        said = ask(third, path if third.needs_symbols else hidden, [addresses[index] for index in unsettled])
        for index, one in zip(unsettled, said, strict=True):
            if _same_chain(one, second[index]):
                first[index] = one
                answers.settled[names[1]] += 1
            elif _same_chain(one, first[index]):
                second[index] = one
                answers.settled[names[0]] += 1
    return answers


def judge(subject: Subject, answers: Answers) -> Tally:
    """Hold a subject against what the referees say. An address where the second referee, which does not know the
    symbol table, has no function counts nowhere: it is padding, or code of an assembler."""
    tally = Tally()
    for address, first, second in zip(answers.addresses, answers.first, answers.second, strict=True):
        if not second or not second[-1].function:
            continue
        tally.sampled += 1
        said = normalized(subject(address))
        if not first or not _same(first[0], second[0]):
            tally.undecided[_followed(answers, said, first, second)] += 1
            continue
        expected = tuple(map(_fuller, _without_symbol(first, second), second))
        named = _by_its_alias(said, expected, answers.aliases)
        is_chain = _same_chain(first, second)
        tally.innermost += 1
        tally.chains += is_chain
        tally.aliased += named != said
        if not named or not _same(named[0], expected[0]):
            tally.lost += not said or not said[0].file
            tally.differ(_kind(named, expected[0]), address, said, second)
            continue
        tally.innermost_equal += 1
        if is_chain and _same_chain(named, expected):
            tally.chains_equal += 1
        elif is_chain:
            tally.differ(_kind_of_chain(named, expected), address, said, second)
    return tally


def _followed(answers: Answers, said: Chain, first: Chain, second: Chain) -> str:
    """The name of the referee whose innermost frame the subject has."""
    by_name = zip(answers.names, (first, second), strict=True)
    return next((name for name, one in by_name if said and one and _same(said[0], one[0])), "neither")


def _by_its_alias(said: Chain, expected: Chain, aliases_of: dict[str, frozenset[str]]) -> Chain:
    """The chain, its outermost function renamed if that is another symbol for the same address."""
    if not said or len(said) != len(expected) or match(said[-1].function, expected[-1].function):
        return said
    if said[-1].function in aliases_of.get(expected[-1].function, ()):
        return (*said[:-1], replace(said[-1], function=expected[-1].function))
    return said


def normalized(frames: Chain) -> Chain:
    """The frames with comparable paths."""
    return tuple(replace(one, file=normalize_path(one.file)) for one in frames)


def _same(one: Frame, other: Frame) -> bool:
    return _same_place(one, other) and match(one.function, other.function)


def _same_place(one: Frame, other: Frame) -> bool:
    # Line 0 is no line; DWARF 2 has no call sites, and a symbol file cannot leave out the file of one.
    is_none = one.line == other.line == 0 and "" in (one.file, other.file)
    return is_none or (one.line, one.file) == (other.line, other.file)


def _same_chain(one: Chain, other: Chain) -> bool:
    return bool(one) and len(one) == len(other) and all(map(_same, one, other))


def _without_symbol(first: Chain, second: Chain) -> Chain:
    """The first referee's frames. addr2line names the innermost one by the symbol at the address if that contains the
    name that DWARF has. Where a function is inlined into one of the same name, it is the outer one's symbol: the other
    referee's name counts."""
    if len(first) == len(second) > 1 and match(first[0].function, second[-1].function):
        return (replace(first[0], function=second[0].function), *first[1:])
    return first


def _fuller(one: Frame, other: Frame) -> Frame:
    """The frame with the more qualified name, which the subject has to match."""
    return one if is_fuller(one.function, other.function) else other


def _kind(said: Chain, expected: Frame) -> str:
    """In what the innermost frame differs."""
    if not said:
        return "no function"
    one = said[0]
    if not match(one.function, expected.function):
        if one.function.startswith(("_Z", "_R")):
            return "a mangled name"
        return "another function" if one.file else "no FUNC record, and another symbol"
    if not one.file:
        return "no line"
    if one.file != expected.file:
        is_folder = one.file.rpartition("/")[2] == expected.file.rpartition("/")[2]
        return "another folder of the file" if is_folder else "another file"
    return "another line"


def _kind_of_chain(said: Chain, expected: Chain) -> str:
    """In what a chain differs whose innermost frame is right."""
    if len(said) < len(expected):
        return "chain: callers missing"
    if len(said) > len(expected):
        return "chain: callers too many"
    for one, other in zip_longest(said, expected):
        if not match(one.function, other.function):
            return "chain: another caller"
        if not _same_place(one, other):
            return "chain: another call site"
    return "chain: less qualified name"


def chain_text(frames: Chain) -> str:
    """The frames on one line, innermost first."""
    return " < ".join(f"{one.function or '?'} {one.file or '?'}:{one.line}" for one in frames) or "nothing"


def report(name: str, tally: Tally) -> str:
    """The counts and the differences as text."""
    innermost, chains = tally.share()
    lines = [
        f"{name}: {tally.sampled:,} addresses; innermost {tally.innermost_equal:,} of {tally.innermost:,} "
        f"({innermost:.4f}), chain {tally.chains_equal:,} of {tally.chains:,} ({chains:.4f}), lost {tally.lost:,}, "
        f"named by an alias {tally.aliased:,}"
    ]
    if tally.undecided:
        followed = ", ".join(f"{who} {count:,}" for who, count in sorted(tally.undecided.items()))
        lines.append(f"  the referees differ at {tally.undecided.total():,}; followed: {followed}")
    for kind, count in tally.kinds.most_common():
        lines += [f"  {count:,} {kind}", *(f"    {one}" for one in tally.examples[kind])]
    return "\n".join(lines) + "\n"
