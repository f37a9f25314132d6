"""Digits and bytes as the uncompiled kernels write them; test_templates.py and the dumps hold both engines to the same
text."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from unwindkit.converters.kernels.raw_text import (
    copy_bytes,
    decimal_digits,
    hexadecimal_digits,
    write_decimal,
    write_digits,
)

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1), st.integers(0, 63).map(lambda bit: 1 << bit))


@given(number=NUMBERS, digits=st.integers(0, 16))
def test_numbers_have_the_digits_that_python_writes(number: int, digits: int) -> None:
    out = np.zeros(40, np.uint8)
    assert hexadecimal_digits(number) == len(f"{number:x}")
    assert decimal_digits(number) == len(f"{number}")
    assert write_digits(number, digits, out, 1) == 1 + digits
    assert write_decimal(number, len(f"{number}"), out, 20) == 20 + len(f"{number}")
    assert out.tobytes()[1 : 1 + digits].decode() == (f"{number:016x}"[16 - digits :] if digits else "")
    assert out.tobytes()[20:].rstrip(b"\0").decode() == f"{number}"


def test_copied_bytes_end_where_the_next_ones_go() -> None:
    out = np.zeros(6, np.uint8)
    assert copy_bytes(np.frombuffer(b"-text-", np.uint8), 1, 4, out, 1) == 5
    assert out.tobytes() == b"\0text\0"
