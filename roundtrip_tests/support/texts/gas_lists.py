"""The tests in gas's folder `cfi-sframe`, by release and e_machine, with counts taken from their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from ..architectures import ARCHITECTURES


class Code(NamedTuple):
    """Bytes of code with rows that the release's SFrame version can express, and with others."""

    sayable: int
    unsayable: int = 0


Case = tuple[str, int]  # a test's name and e_machine


def cases_of(tests: dict[int, dict[str, Code]]) -> list[Case]:
    return [(name, machine) for machine in tests for name in tests[machine]]


def for_each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    names = [f"{name}-{ARCHITECTURES[machine].name}" for name, machine in cases]
    return pytest.mark.parametrize(("name", "machine"), cases, ids=names)


# --- 2.44: V2 -------------------------------------------------------------------------------------------------

_COMMON_2_44 = {
    "cfi-sframe-common-1": Code(0),
    "cfi-sframe-common-2": Code(0),
    "cfi-sframe-common-3": Code(0),
    "cfi-sframe-common-4": Code(12),
    "cfi-sframe-common-5": Code(12),
    "cfi-sframe-common-6": Code(12),
    "cfi-sframe-common-7": Code(12),
    "cfi-sframe-common-8": Code(8),
    "common-empty-1": Code(0),
    "common-empty-2": Code(0, 12),
    "common-empty-3": Code(0, 12),
}
_X86_64_2_44 = {"cfi-sframe-x86_64-1": Code(25)}
_AARCH64_2_44 = {
    "cfi-sframe-aarch64-1": Code(20 * 4),
    "cfi-sframe-aarch64-2": Code(8),
    "cfi-sframe-aarch64-3": Code(8),
    "cfi-sframe-aarch64-4": Code(4, 8),
    "cfi-sframe-aarch64-pac-ab-key-1": Code(3 * 4 + 5 * 4),
}
IN_2_44 = {62: _COMMON_2_44 | _X86_64_2_44, 183: _COMMON_2_44 | _AARCH64_2_44}

# --- 2.47: V3 -------------------------------------------------------------------------------------------------

_COMMON_2_47 = {
    **dict.fromkeys(["cfi-sframe-common-1", "cfi-sframe-common-1b", "cfi-sframe-common-1c"], Code(0)),
    **dict.fromkeys(["cfi-sframe-common-1d", "cfi-sframe-common-2", "cfi-sframe-common-3"], Code(0)),
    **{f"cfi-sframe-common-{number}": Code(12) for number in range(4, 8)},
    **{f"cfi-sframe-common-{number}": Code(8) for number in range(8, 13)},
    "cfi-sframe-common-13": Code(0),
    "cfi-sframe-common-14": Code(4),
    "cfi-sframe-common-pr33810": Code(264),
    "common-empty-2": Code(0, 12),
    "common-empty-3": Code(0, 12),
}
_X86_64_2_47 = {
    "cfi-sframe-x86_64-1": Code(25),
    "cfi-sframe-x86_64-2": Code(0),
    "cfi-sframe-x86_64-3": Code(0),
    "cfi-sframe-x86_64-4": Code(199),
    "cfi-sframe-x86_64-5": Code(7),
    "cfi-sframe-x86_64-6": Code(16),
    "cfi-sframe-x86_64-7": Code(20),
    "cfi-sframe-x86_64-empty-1": Code(4, 4),
    "cfi-sframe-x86_64-empty-2": Code(4, 4),
    "cfi-sframe-x86_64-empty-3": Code(8),
    "cfi-sframe-x86_64-empty-4": Code(4, 4),
    "cfi-sframe-x86_64-empty-5": Code(4, 4),
    "cfi-sframe-x86_64-empty-pr33277": Code(0),
    "cfi-sframe-x86_64-esc-expr-1": Code(95),
    "cfi-sframe-x86_64-esc-expr-2": Code(15),
    "cfi-sframe-x86_64-esc-expr-3": Code(17),
    "cfi-sframe-x86_64-pr33170": Code(50 + 16, 3 * 16),  # and ld's PLT
    "cfi-sframe-x86_64-pr33756": Code(16),
    "cfi-sframe-x86_64-ra-undefined-1": Code(6),
    "cfi-sframe-x86_64-ra-undefined-flex-1": Code(7),
    "cfi-sframe-x86_64-signal-1": Code(3),
}
_AARCH64_2_47 = {
    "cfi-sframe-aarch64-1": Code(20 * 4),
    "cfi-sframe-aarch64-2": Code(8),
    "cfi-sframe-aarch64-3": Code(8),
    "cfi-sframe-aarch64-4": Code(4, 8),
    "cfi-sframe-aarch64-pac-ab-key-1": Code(3 * 4 + 5 * 4),
    "cfi-sframe-aarch64-ra-undefined-1": Code(4 * 4),
}
_S390X_2_47 = {
    "cfi-sframe-s390x-1": Code(40),
    "cfi-sframe-s390x-2": Code(40),
    "cfi-sframe-s390x-3": Code(0),
    "cfi-sframe-s390x-err-3": Code(0, 2),
    "cfi-sframe-s390x-fpra-offset-1": Code(34),
    "cfi-sframe-s390x-fpra-offset-2": Code(34),
    "cfi-sframe-s390x-fpra-register-1": Code(26),
    "cfi-sframe-s390x-fpra-register-2": Code(26),
    "cfi-sframe-s390x-non-spfp-cfa-1": Code(40),
    "cfi-sframe-s390x-non-spfp-cfa-2": Code(40),
    "cfi-sframe-s390x-pr33756": Code(20),
    "cfi-sframe-s390x-ra-undefined-1": Code(18),
    "cfi-sframe-s390x-sp-register": Code(16),
}
IN_2_47 = {62: _COMMON_2_47 | _X86_64_2_47, 183: _COMMON_2_47 | _AARCH64_2_47, 22: _COMMON_2_47 | _S390X_2_47}
