"""The form of names, found in all at once: as one by one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unwindkit.converters.breakpad.name_forms import MAX_DIRECT, MAX_MANGLED, NameForm, forms_of, may_expand
from unwindkit.converters.strings import Strings

HASH = "17h0123456789abcdefE"
PIECES = [
    *(
        "_Z",
        "_ZN",
        "_R",
        "_D",
        "$s",
        "_$s",
        "$S",
        "_$S",
        "A",
        "NvC1a1b",
        "B",
        "C",
        "0",
        "1f",
        "Ul",
        "Ut",
        "U",
        "S_",
        "T_",
        "Dp",
        "17h",
        "_",
    ),
    *(HASH, HASH[:-1], HASH.upper(), HASH.replace("f", "g"), "E", ".llvm.1", "v", "é", "\0", "\n", "\x7f", " "),
    *("S1_" * 9, "f" * 1020),
]


def form_of(name: str) -> NameForm:
    """The form of one name, by patterns."""
    if len(name.encode()) > MAX_MANGLED:
        return NameForm.PLAIN
    if name.startswith(("_D", "$s", "_$s", "$S", "_$S")):
        return NameForm.OTHER
    if not re.match("_Z|_R[CMXYNIB]", name):
        return NameForm.PLAIN
    if not name.isascii() or "\0" in name or "\n" in name:
        return NameForm.OTHER
    if name.startswith("_R"):
        return NameForm.RUST_V0
    if re.fullmatch("_ZN.*17h[0-9a-f]{16}E", name):
        return NameForm.RUST_LEGACY
    if re.match("_ZN.*17h[0-9a-f]{16}E", name):
        return NameForm.OTHER
    if len(name) > MAX_DIRECT:
        return NameForm.LONG
    if "Ul" in name or "Ut" in name:
        return NameForm.LONG if may_expand(name) else NameForm.OTHER
    return NameForm.USUAL


NAME = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@given(st.lists(NAME, max_size=12))
@example(["_R", "A", "_Z", "", "_ZN" + HASH, "_ZN" + HASH[:-1], "E", "_ZfU", "lv", "_Zf17", "h"])
@example(["_ZUl", "_ZUt", "_Zé", "_RNé", "_RA", "_RC", "_RB", "_RAISE", "_R0C", "_R", "_RN\x7f", "_RN\0"])
@example(["_ZN17h0123456789abcdef", "E"])
@example([])
@example([""])
def test_names_together_have_the_forms_that_each_has(names: list[str]) -> None:
    found = forms_of(Strings.of(name.encode() for name in names))
    assert [NameForm(form) for form in found.tolist()] == [form_of(name) for name in names]


@pytest.mark.parametrize(("size", "form"), [(MAX_MANGLED, NameForm.LONG), (MAX_MANGLED + 1, NameForm.PLAIN)])
def test_very_long_names_are_not_demangled(size: int, form: NameForm) -> None:
    assert forms_of(Strings.of([b"_Z" + b"f" * (size - 2)])).tolist() == [form]
    assert forms_of(Strings.of([b"_D" + b"f" * (size - 2)])).tolist() == [min(form, 1) * NameForm.OTHER]
