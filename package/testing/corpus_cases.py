"""Cases of the corpus, drawn by hypothesis, which makes a failing one small."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..corpus.case import Case
from ..corpus.formats import Format, Options, check_names, format_named
from ..schemas.arguments import checked, collection_of
from .from_choices import by_hypothesis


@checked(without=collection_of(str))
def corpus_cases(
    form: str, without: Collection[str] = (), valid_only: bool = False, raw: bool = False
) -> SearchStrategy[Case]:
    """Sections of `form`, a format of `unwindkit corpus`, with what a right reader answers.

    Without `valid_only`, in some of them one field is broken. No feature, fault or architecture in
    `without` occurs. `raw`: only
    sections that refer to no others. Raises BuildError for names that the format does not have.
    """
    check_names([form], without)
    options = Options(without=frozenset(without), valid_only=valid_only).for_files(raw=raw)
    return _cases(format_named(form), options)


@st.composite
def _cases(draw: DrawFn, form: Format, options: Options) -> Case:
    choose = by_hypothesis(draw)
    kind = draw(st.integers(0, form.kinds(options.without) - 1))
    case = form.make(choose, kind, options.without)
    faults = [one for one in form.faults if one not in options.without]
    if options.valid_only or not faults or draw(st.booleans()):
        return case
    return form.break_case(choose, case, faults) or case
