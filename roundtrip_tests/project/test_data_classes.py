"""Data classes whose methods are made when they are called: they behave as those of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest
from unwindkit.schemas.data_classes import dataclass, parts_of


@dataclass(frozen=True, slots=True)
class Span:
    """A class with all kinds of defaults."""

    start: int
    size: int = 1
    notes: list[str] = field(default_factory=list, compare=False)
    kind: str = field(default="code", metadata={"doc": "what it is"})

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    number: int


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("negative")


@dataclass(frozen=True, slots=True)
class Own:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __repr__(self) -> str:
        return "own"


@dataclass(frozen=True, kw_only=True)
class Base:
    name: str
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    size: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.size


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    number: int


def test_positions_names_and_defaults() -> None:
    one = Span(3, kind="data")
    assert (one.start, one.size, one.notes, one.kind, one.end) == (3, 1, [], "data", 4)
    assert Span(3).notes is not Span(3).notes


@pytest.mark.parametrize("wrong", [(), (1, 2, [], "", 5)])
def test_wrong_arguments_are_type_errors(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        Span(*wrong)


def test_text_equality_and_hash() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        left: int
        right: int

    assert repr(Pair(1, 2)).endswith("Pair(left=1, right=2)")
    assert Pair(1, 2) == Pair(1, 2) != Pair(2, 1)
    assert len({Pair(1, 2), Pair(1, 2), Pair(2, 1)}) == 2
    assert Pair(1, 2) != (1, 2)


def test_fields_left_out_of_comparisons() -> None:
    assert Span(1, notes=["a"]) == Span(1, notes=["b"])


def test_without_equality_objects_are_themselves() -> None:
    one = Identity(1)
    assert one == one
    assert one != Identity(1)
    assert len({one, Identity(1)}) == 2


def test_fields_are_fixed() -> None:
    one: Any = Span(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'start'"):
        one.start = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'start'"):
        del one.start
    assert not hasattr(one, "__dict__")


def test_checks_after_the_start() -> None:
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_methods_of_the_class_itself_are_kept() -> None:
    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == hash(Own(1))


def test_fields_replace_asdict_and_patterns() -> None:
    assert [one.name for one in fields(Span)] == ["start", "size", "notes", "kind"]
    assert fields(Span)[3].metadata == {"doc": "what it is"}
    assert replace(Span(1), size=5) == Span(1, 5)
    assert asdict(Span(1)) == {"start": 1, "size": 1, "notes": [], "kind": "code"}
    match Span(1, 2):
        case Span(start, size):
            assert (start, size) == (1, 2)


def test_copies_and_pickles() -> None:
    one = Span(1, 2, ["a"])
    assert copy.copy(one) == one
    assert copy.deepcopy(one).notes == ["a"]
    assert pickle.loads(pickle.dumps(one)).notes == ["a"]


def test_inherited_fields() -> None:
    one = Derived(name="a", size=2)
    assert (one.name, one.count, one.size, one.twice) == ("a", 0, 2, 4)
    assert one == Derived(name="a", size=2)
    assert one != Base(name="a")
    assert Base(name="b", count=3).count == 3


def test_signature_before_and_after_the_first_use() -> None:
    @dataclass(frozen=True, slots=True)
    class Triple:
        a: int
        b: int = 2

    for _ in range(2):
        assert str(inspect.signature(Triple)) == "(a: 'int', b: 'int' = 2) -> None"
        assert str(Triple.__signature__) == "(a: 'int', b: 'int' = 2) -> None"
        Triple(1)


def test_order() -> None:
    assert Ordered(1) < Ordered(2)


def test_fields_of_the_standard_library_are_those_that_are_listed() -> None:
    for cls in (Span, Identity, Checked, Own, Base, Derived):
        known = [(one.name, one.type, one.kw_only) for one in fields(cls)]
        assert [(part.name, part.type, part.kw_only) for part in parts_of(cls)] == known
    assert [part.name for part in parts_of(Derived)] == ["name", "count", "size"]


def test_shared_values_and_own_methods_are_no_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Counted:
        number: int
        total: ClassVar[int] = 7

    assert [one.name for one in fields(Counted)] == [part.name for part in parts_of(Counted)] == ["number"]
    assert (Counted(1).total, Counted.__slots__, Counted.__match_args__) == (7, ("number",), ("number",))


def test_first_use_by_several_threads() -> None:
    for _ in range(20):

        @dataclass(frozen=True, slots=True)
        class Shared:
            number: int
            text: str = ""

        with ThreadPoolExecutor(8) as executor:
            found = list(executor.map(Shared, range(64)))
        assert found == [Shared(number) for number in range(64)]
