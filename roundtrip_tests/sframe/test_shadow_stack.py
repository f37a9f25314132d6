"""What the shadow stack decodes from instructions: stores of FP and RA, branches that may be returns, signatures.

The bytes were assembled by GNU as.
"""

from __future__ import annotations

import pytest

from ..support.judges.shadow_machines import decode_aarch64, decode_s390x


@pytest.mark.parametrize(
    ("code", "stores"),
    [
        ("fd7bbda9", [(29, 31, -48), (30, 31, -40)]),  # stp x29, x30, [sp, #-48]!
        ("f37b01a9", [(30, 31, 24)]),  # stp x19, x30, [sp, #16]
        ("fd7b81a8", [(29, 31, 0), (30, 31, 8)]),  # stp x29, x30, [sp], #16
        ("fe0701f8", [(30, 31, 0)]),  # str x30, [sp], #16
        ("fe0f1ff8", [(30, 31, -16)]),  # str x30, [sp, #-16]!
        ("fe0b00f9", [(30, 31, 16)]),  # str x30, [sp, #16]
        ("be031ff8", [(30, 29, -16)]),  # stur x30, [x29, #-16]
        ("fd7bc3a8", []),  # ldp x29, x30, [sp], #48
        ("fe0741f8", []),  # ldr x30, [sp], #16
        ("f30b00f9", []),  # str x19, [sp, #16]
        ("fe1300b9", []),  # str w30, [sp, #16]
        ("fe6b21f8", []),  # str x30, [sp, x1]
        ("fe07803d", []),  # str q30, [sp, #16]
        ("fd7bbead", []),  # stp q29, q30, [sp, #-64]!
    ],
)
def test_aarch64_stores_are_decoded(code: str, stores: list[tuple[int, int, int]]) -> None:
    assert list(decode_aarch64(bytes.fromhex(code)).stores) == stores


@pytest.mark.parametrize(
    ("code", "target", "key"),
    [
        ("c0035fd6", 30, None),  # ret
        ("20025fd6", 17, None),  # ret x17
        ("20021fd6", 17, None),  # br x17
        ("20023fd6", None, None),  # blr x17
        ("ff0b5fd6", 30, None),  # retaa
        ("ff0f5fd6", 30, None),  # retab
        ("3f2303d5", None, "A"),  # paciasp
        ("7f2303d5", None, "B"),  # pacibsp
        ("bf2303d5", None, ""),  # autiasp
        ("ff2303d5", None, ""),  # autibsp
    ],
)
def test_aarch64_returns_and_signatures_are_decoded(code: str, target: int | None, key: str | None) -> None:
    found = decode_aarch64(bytes.fromhex(code))
    assert (found.size, found.target, found.key, found.stores) == (4, target, key, ())


@pytest.mark.parametrize(
    ("code", "size", "target"),
    [
        ("07fe", 2, 14),  # br %r14
        ("07f4", 2, 4),  # br %r4
        ("078e", 2, 14),  # ber %r14
        ("0700", 2, None),  # nopr
        ("0dee", 2, None),  # basr %r14,%r14
        ("a7f40010", 4, None),  # j .+32
        ("c0e500000010", 6, None),  # brasl %r14,.+32
    ],
)
def test_s390x_returns_are_decoded(code: str, size: int, target: int | None) -> None:
    found = decode_s390x(bytes.fromhex(code).ljust(6, b"\0"))
    assert (found.size, found.target) == (size, target)


@pytest.mark.parametrize(
    ("code", "size", "stores"),
    [
        ("ebbff0580024", 6, [(11, 15, 88), (14, 15, 112)]),  # stmg %r11,%r15,88(%r15)
        ("ebe2f0080024", 6, [(14, 15, 8)]),  # stmg %r14,%r2,8(%r15)
        ("e3e0f0700024", 6, [(14, 15, 112)]),  # stg %r14,112(%r15)
        ("e3e0fff8ff24", 6, [(14, 15, -8)]),  # stg %r14,-8(%r15)
        ("e3e010700024", 6, [(14, 1, 112)]),  # stg %r14,112(%r1)
        ("e3e1f0700024", 6, []),  # stg %r14,112(%r1,%r15)
        ("ebbff0580004", 6, []),  # lmg %r11,%r15,88(%r15)
        ("e360f0300024", 6, []),  # stg %r6,48(%r15)
        ("07fe", 2, []),  # br %r14
    ],
)
def test_s390x_stores_are_decoded(code: str, size: int, stores: list[tuple[int, int, int]]) -> None:
    found = decode_s390x(bytes.fromhex(code).ljust(6, b"\0"))
    assert (found.size, list(found.stores)) == (size, stores)
