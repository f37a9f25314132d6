"""Fuzz targets that are text: symbol files, postfix expressions, directives, mangled names."""

from __future__ import annotations

import io
from collections.abc import Iterator

import unwindkit
from unwindkit.converters.breakpad.itanium import demangle_itanium
from unwindkit.converters.breakpad.rust import demangle_rust
from unwindkit.converters.strings import Strings
from unwindkit.schemas.breakpad.files import read_records
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.text_records import Record

from ..breakpad.test_demangle import doubling_name, rust_doubling_name
from .seeds import Seed, corpus_seeds
from .target import Target

EXPANSION = 64
FUNCTIONS = b"""FILE 3 /a.c
FILE 9 /b b.c
INLINE_ORIGIN 4 g
INLINE_ORIGIN 7 h i
FUNC 1000 10 0 f
INLINE 0 5 3 4 1000 4 1008 4
INLINE 1 6 9 7 1001 1
INLINE 0 7 7 100e 1
1000 8 1 9
1008 8 2 3
FUNC m 2000 8 4 g
2000 8 1 3
PUBLIC 3000 0 p
"""
STACK_WIN = b"""STACK WIN 4 1000 20 1 2 c 8 10 40 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =
STACK WIN 4 1020 20 1 0 0 4 0 0 1 $T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =
STACK WIN 0 1040 20 1 0 4 0 4 0 0 1
"""
DIRECTIVES = b""" .text
f: .cfi_startproc
 .cfi_personality 0x0, handler
 .skip 4
 .cfi_def_cfa_offset 32
 .cfi_offset 3, -16
1: .byte 1, 2, 3 ; .long 5
 .p2align 4
 .cfi_remember_state
 .cfi_escape 0x16, 0x6, 0x2, 0x77, 0x8
 .cfi_restore_state
 .cfi_endproc
 .ascii "a;b\\"", "\\101"
 .set x, 1b + 4 * (2 - 1)
"""


def _records(seed: Seed) -> Iterator[tuple[int, Record]]:
    return read_records(io.BytesIO(seed.data))


def _checked(seed: Seed) -> object:
    return [str(error) for error in check_records(_records(seed))]


def _rules(seed: Seed) -> object:
    return [[*unwindkit.rule_rows(one)] for one in unwindkit.rule_ranges(_records(seed))]


def _memory(address: int, size: int) -> int:
    return (address ^ 0x5555) & (1 << 8 * size) - 1


NAMES = {"$rsp": 0x7FFF0000, "$eip": 0x1000, "$esp": 0x2000, "$ebp": 0x3000, ".cfa": 0x7FFF1000, ".raSearch": 0x2010}


def _text(seed: Seed) -> str:
    return seed.data.decode(errors="surrogateescape")


def _postfix(seed: Seed) -> object:
    return unwindkit.evaluate_postfix(_text(seed), NAMES, _memory)


def _program(seed: Seed) -> object:
    return unwindkit.run_postfix(_text(seed), NAMES, _memory)


POSTFIX = [
    b".cfa 8 - ^", b"$rsp 16 +", b"$T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =", b"1 2 - 3 * 4 / 5 %",
    b"$esp 16 @", b"$T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =", b"-9223372036854775808 -1 /", b"0 1 - 7 %",
]  # fmt: skip
MANGLED = [
    b"_Z1fv", b"_ZNSt6vectorIiSaIiEE9push_backERKi", b"_ZN1aIJiicEE1bILi5EEEDTcl1cfp_EES0_T_DpT0_", b"_ZTVN3foo3barE",
    b"_ZZ4mainENKUlvE_clEv", b"_ZN5boost4asio14async_initiateIKNS0_15any_io_executorEFvNS_6system10error_codeEEEEvv",
    b"_ZGVZ1fvE1x", b"_ZThn16_N1a1bEv", b"_ZN1AcvT_IiEEv", b"_Z1fIXadL_Z1gvEEEvv", b"_Z1fDv4_fPU3AS1iRKM1aFivE",
    b"_Z3fooILb1EEvDTdtfp_3barE", b"_ZN12_GLOBAL__N_11fEv.cold.5", b"_Z1fIiEDaT_Q1CIS0_E", doubling_name(9).encode(),
]  # fmt: skip
RUST = [
    b"_RNvC7mycrate3foo", b"_RINvNtC3std3mem8align_ofjdE", b"_RNCINvNtC1a1b1cReNtC1d1eE0",
    b"_RNvXs_C1aNtB4_1bNtC1c1d1f",
    b"_RINvC1a1bKj5_Kb1_Kc61_E", b"_RNvMs0_C1aINtB5_1bDNtC1c1dEL_E1e", b"_RINvC1a1bFUKCRL0_jEuE", b"_RNvC1au4bcd_",
    rust_doubling_name(9).encode(),
]  # fmt: skip
LEGACY = [
    b"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
    b"_ZN33_$LT$T$u20$as$u20$a..b$GT$3foo17h0123456789abcdefE",
]


def _itanium(seed: Seed) -> object:
    return [bytes(one) for one in demangle_itanium(Strings.of(seed.data.split(b"\n")), EXPANSION, True)]


def _rust(seed: Seed) -> object:
    names = Strings.of(seed.data.split(b"\n"))
    return [[bytes(one) for one in demangle_rust(names, EXPANSION, is_legacy)] for is_legacy in (False, True)]


def _plain(*texts: bytes) -> list[Seed]:
    return [Seed(text) for text in texts]


def _stack_cfi_seeds() -> list[Seed]:
    return [Seed(one.data, architecture=one.architecture) for one in corpus_seeds("breakpad")]


TEXT_TARGETS = (
    Target(
        "stack-cfi",
        _stack_cfi_seeds,
        {"table": lambda seed: unwindkit.from_stack_cfi(seed.data, seed.architecture), "rules": _rules},
        ("converters/breakpad/stack_cfi", "converters/kernels/breakpad/stack_cfi.py"),
    ),
    Target(
        "symbol-files",
        lambda: _plain(FUNCTIONS, FUNCTIONS.replace(b"\n", b"\r\n"), STACK_WIN),
        {
            "functions": lambda seed: unwindkit.from_function_records(seed.data),
            "lines": lambda seed: unwindkit.from_line_records(seed.data),
            "records": _checked,
        },
        ("converters/breakpad/function_read.py", "converters/kernels/breakpad/symbol_lines.py", "schemas/breakpad"),
    ),
    Target(
        "stack-win",
        lambda: _plain(STACK_WIN),
        {"table": lambda seed: unwindkit.from_stack_win(seed.data)},
        ("converters/breakpad/stack_win_read.py", "converters/breakpad/stack_win_rules.py"),
    ),
    Target(
        "postfix",
        lambda: _plain(*POSTFIX),
        {"expression": _postfix, "program": _program},
        ("converters/breakpad/postfix",),
    ),
    Target(
        "directives",
        lambda: _plain(DIRECTIVES),
        {"table": lambda seed: unwindkit.from_directives(seed.data, "x86_64")},
        ("converters/assembler",),
    ),
    Target(
        "cplusplus-names",
        lambda: _plain(*MANGLED, b"\n".join(MANGLED)),
        {"demangle": _itanium},
        ("converters/breakpad/itanium.py", "converters/kernels/breakpad"),
    ),
    Target(
        "rust-names",
        lambda: _plain(*RUST, *LEGACY, b"\n".join(RUST)),
        {"demangle": _rust},
        ("converters/breakpad/rust.py", "converters/kernels/breakpad/rust_names.py"),
    ),
)
