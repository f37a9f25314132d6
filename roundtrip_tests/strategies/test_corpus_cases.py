"""What `unwindkit.testing` draws for other tests: cases of every format, and failing ones that become small."""

from __future__ import annotations

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from unwindkit import BuildError, CfaKind
from unwindkit.conform.judge import differences
from unwindkit.conform.own_reader import own_answers
from unwindkit.conform.reader import Reply
from unwindkit.converters.elf.image import elf_of_bytes
from unwindkit.corpus.formats import FORMATS
from unwindkit.testing import Case, corpus_cases, file_bytes, unwind_tables

from ..conftest import fewer

SMALL = settings(database=None, deadline=None, derandomize=True, max_examples=1000)


@fewer(2)
@given(st.sampled_from(sorted(FORMATS)).flatmap(corpus_cases))
def test_our_reader_answers_as_drawn(case: Case) -> None:
    pcs = tuple(case.answers)
    assert list(differences(case, pcs, Reply(tuple(own_answers(case, pcs))))) == []


@fewer(10)
@given(corpus_cases("sframe-v3", valid_only=True, without=["gaps"]))
def test_what_is_left_out(case: Case) -> None:
    assert case.fault is None
    assert "gaps" not in case.features


@pytest.mark.parametrize(("format_", "without"), [("sframe-v4", []), ("sframe-v2", ["auxilary-header"])])
def test_unknown_names(format_: str, without: list[str]) -> None:
    with pytest.raises(BuildError, match="is not one of"):
        corpus_cases(format_, without)


def test_the_file_of_a_case() -> None:
    case = find(corpus_cases("sframe-v2"), lambda _: True, settings=SMALL)
    (section,) = elf_of_bytes("case", file_bytes(case)).named(".sframe")
    assert (section.address, section.size) == (case.address, len(case.data))
    assert file_bytes(case, raw=True) == case.data


def test_a_failing_case_becomes_small() -> None:
    """A signed return address: one function of one row."""
    case = find(
        corpus_cases("sframe-v3", valid_only=True),
        lambda one: any("[s" in answer[1] for answer in one.answers.values() if len(answer) > 1),
        settings=SMALL,
    )
    assert [len(one["rows"]) for one in case.functions] == [1]


def test_a_failing_table_becomes_small() -> None:
    """A CFA that is an expression: one function of one row."""
    table = find(
        unwind_tables("x86_64"), lambda one: bool((one.rows.cfa_kind == CfaKind.EXPRESSION).any()), settings=SMALL
    )
    assert (len(table), len(table.rows)) == (1, 1)
