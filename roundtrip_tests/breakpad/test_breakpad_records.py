"""Records of Breakpad symbol files: the document's examples, unusual but valid lines, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.schemas.breakpad.files import build_record, parse_record
from unwindkit.schemas.breakpad.records import (
    File,
    Func,
    Info,
    InfoCodeId,
    InfoGenerator,
    InfoUrl,
    Inline,
    InlineOrigin,
    Line,
    Module,
    Public,
    StackCfi,
    StackCfiInit,
    StackWin,
    Unknown,
)
from unwindkit.schemas.text_records import Record

MAX = (1 << 64) - 1
OPERATOR = "nsQueryInterfaceWithError::operator()(nsID const&, void**) const"

# Every example of the document, and the forms without an example there.
VECTORS: list[tuple[str, Record]] = [
    (
        "MODULE Linux x86 D3096ED481217FD4C16B29CD9BC208BA0 firefox-bin",
        Module(
            "Linux",  # operatingsystem
            "x86",  # architecture
            "D3096ED481217FD4C16B29CD9BC208BA0",  # id
            "firefox-bin",  # name
        ),
    ),
    ("MODULE windows x86_64 0 a name.dll", Module("windows", "x86_64", "0", "a name.dll")),
    (
        "FILE 2 /home/jimb/mc/in/browser/app/nsBrowserApp.cpp",
        File(
            2,  # number
            "/home/jimb/mc/in/browser/app/nsBrowserApp.cpp",  # name
        ),
    ),
    (f"INLINE_ORIGIN 2 {OPERATOR}", InlineOrigin(2, OPERATOR)),
    (
        f"FUNC m c184 30 0 {OPERATOR}",
        Func(
            True,  # m
            0xC184,  # address
            0x30,  # size
            0,  # parameter_size
            OPERATOR,  # name
        ),
    ),
    ("FUNC c184 30 1c f", Func(False, 0xC184, 0x30, 0x1C, "f")),
    (
        "INLINE 0 10 3 4 d30 2a fa1 b",
        Inline(
            0,  # inline_nest_level
            10,  # call_site_line, decimal
            3,  # call_site_file_num
            4,  # origin_num
            ((0xD30, 0x2A), (0xFA1, 0xB)),  # ranges
        ),
    ),
    # Before the call site's file was written: three numbers, then pairs.
    ("INLINE 0 10 4 d30 2a fa1 b", Inline(0, 10, None, 4, ((0xD30, 0x2A), (0xFA1, 0xB)))),
    ("INLINE 0 10 4 30 20", Inline(0, 10, None, 4, ((0x30, 0x20),))),
    (
        "c184 7 59 4",
        Line(
            0xC184,  # address
            7,  # size
            59,  # line, decimal
            4,  # filenum, decimal
        ),
    ),
    ("10 10 10 10", Line(16, 16, 10, 10)),
    (
        "PUBLIC m 2160 0 Public2_1",
        Public(
            True,  # m
            0x2160,  # address
            0,  # parameter_size
            "Public2_1",  # name
        ),
    ),
    ("PUBLIC 2160 c Public2_1", Public(False, 0x2160, 12, "Public2_1")),
    (
        "STACK WIN 4 2170 14 1 0 0 0 0 0 1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =",
        StackWin(
            4,  # type
            0x2170,  # rva
            0x14,  # code_size
            1,  # prologue_size
            0,  # epilogue_size
            0,  # parameter_size
            0,  # saved_register_size
            0,  # local_size
            0,  # max_stack_size
            1,  # has_program_string
            "$eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =",  # program_string
        ),
    ),
    (
        "STACK WIN 0 1000 2f a 1b c 8 1d ff 0 1",
        StackWin(0, 0x1000, 0x2F, 0xA, 0x1B, 0xC, 8, 0x1D, 0xFF, 0, 1),  # the last is allocates_base_pointer
    ),
    ("STACK WIN 3 1000 2f a 1b c 8 1d ff 0 0", StackWin(3, 0x1000, 0x2F, 0xA, 0x1B, 0xC, 8, 0x1D, 0xFF, 0, 0)),
    (
        "STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^",
        StackCfiInit(
            0x804C4B0,  # address
            0x40,  # size
            ((".cfa", "$esp 4 +"), ("$eip", ".cfa 4 - ^")),  # rules
        ),
    ),
    (
        "STACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^",
        StackCfi(0x804C4B1, ((".cfa", "$esp 8 +"), ("$ebp", ".cfa 8 - ^"))),
    ),
    ("INFO CODE_ID C22813AC7D101E2FF13F", InfoCodeId("C22813AC7D101E2FF13F", None)),
    ("INFO CODE_ID 5A9832E5287241 a b.exe", InfoCodeId("5A9832E5287241", "a b.exe")),
    ("INFO GENERATOR mozilla/dump_syms 2.3.7", InfoGenerator("mozilla/dump_syms 2.3.7")),
    ("INFO URL https://example.org/a b", InfoUrl("https://example.org/a b")),
    ("INFO a word or two", Info("a word or two")),
    ("INFO CODE_IDS 12", Info("CODE_IDS 12")),
    ("", Unknown("")),
    ("   ", Unknown("   ")),
    ("# a comment", Unknown("# a comment")),
    ("FUNCTION 1 2 3", Unknown("FUNCTION 1 2 3")),
    ("FACE 7 59 4", Unknown("FACE 7 59 4")),  # only capital letters: possibly the name of a future record
    ("g184 7 59 4", Unknown("g184 7 59 4")),
    # Names: empty, with spaces around, beyond ASCII.
    ("FUNC 1 2 3 ", Func(False, 1, 2, 3, "")),
    ("FUNC 1 2 3  a  b ", Func(False, 1, 2, 3, " a  b ")),
    ("FILE 0 ü.c", File(0, "ü.c")),
    # The largest numbers.
    ("ffffffffffffffff 0 18446744073709551615 0", Line(MAX, 0, MAX, 0)),
    ("FILE 9999999999999999999 a", File(9999999999999999999, "a")),
    ("FILE 10000000000000000000 a", File(10**19, "a")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "record"), VECTORS, ids=[text[:30] for text, _ in VECTORS])
def test_lines_read_as_the_document_has_them_and_write_back(text: str, record: Record) -> None:
    line = text.encode() + b"\n"
    parsed = parse_record(line)
    assert (parsed, type(parsed)) == (record, type(record))
    assert parsed.spelling == b""
    assert build_record(record) == line


# Lines as other writers or editors leave them, with the canonical form.
ODD: list[tuple[bytes, bytes]] = [
    (b"c184 7 59 4\r\n", b"c184 7 59 4"),
    (b"c184 7 59 4\r\r\n", b"c184 7 59 4"),
    (b"c184 7 59 4", b"c184 7 59 4"),
    (b"c184 7 59 4\r", b"c184 7 59 4"),
    (b"c184 7 59 4 \n", b"c184 7 59 4"),
    (b"  c184  7   59 4\n", b"c184 7 59 4"),
    (b"C184 7 59 4\n", b"c184 7 59 4"),
    (b"0xc184 0X7 059 4\n", b"c184 7 59 4"),
    (b"0000000000000000000000c184 007 000000000000000000000000059 04\n", b"c184 7 59 4"),
    (b"0x0000000000000000000c184 7 59 4\n", b"c184 7 59 4"),
    (b"FA1 7 59 4\n", b"fa1 7 59 4"),
    (b"FUNC  m  C184 30 0 a name \r\n", b"FUNC m c184 30 0 a name "),
    (b" FILE 02 a\n", b"FILE 2 a"),
    (b"INLINE 0 10 3 4 0D30 2A  fa1 b \n", b"INLINE 0 10 3 4 d30 2a fa1 b"),
    (b"INLINE 0 10  4 D30 2a\n", b"INLINE 0 10 4 d30 2a"),
    (b"STACK CFI      1001 .cfa: $sp 16 +\n", b"STACK CFI 1001 .cfa: $sp 16 +"),  # so in the document
    (b"STACK CFI 1001 .cfa: $sp  16 +\n", b"STACK CFI 1001 .cfa: $sp 16 +"),
    (b"STACK CFI 1001  .cfa: $sp 16 +\n", b"STACK CFI 1001 .cfa: $sp 16 +"),
    (b"STACK CFI 1001 .cfa: $sp 16 + \n", b"STACK CFI 1001 .cfa: $sp 16 +"),
    (b"STACK  CFI INIT 1001 2 .cfa:  $sp 16  + .ra: .cfa ^ \n", b"STACK CFI INIT 1001 2 .cfa: $sp 16 + .ra: .cfa ^"),
    (b"STACK WIN 0 1000 2F a 1b c 8 1d ff 00 01 \n", b"STACK WIN 0 1000 2f a 1b c 8 1d ff 0 1"),
    (b"STACK WIN 0 1 2 3 4 5 6 7 8 0   1  \n", b"STACK WIN 0 1 2 3 4 5 6 7 8 0 1"),
    (b"STACK WIN 4 1 2 3 4 5 6 7 8 0x0 0\n", b"STACK WIN 4 1 2 3 4 5 6 7 8 0 0"),
    (b"STACK WIN 4 1 2 3 4 5 6 7 8 01 $eip\n", b"STACK WIN 4 1 2 3 4 5 6 7 8 1 $eip"),
    (b"INFO  GENERATOR x\r\n", b"INFO GENERATOR x"),
    (b"INFO x\r\n", b"INFO x"),
    (b"PUBLIC m  2160 0 p\n", b"PUBLIC m 2160 0 p"),
    (b"# comment\r\n", b"# comment"),
    (b"", b""),
]  # fmt: skip


@pytest.mark.parametrize(("odd", "canonical"), ODD)
def test_odd_lines_mean_the_same_and_keep_their_spelling(odd: bytes, canonical: bytes) -> None:
    record, plain = parse_record(odd), parse_record(canonical + b"\n")
    assert (record, type(record)) == (plain, type(plain))
    assert plain.spelling == b""
    assert record.spelling == odd
    assert build_record(record) == (odd or b"\n")
    assert build_record(replace(record, spelling=b"")) == canonical + b"\n"


def test_a_changed_record_loses_its_spelling() -> None:
    record = parse_record(b"FUNC 00c184 30 0 f\r\n")
    assert isinstance(record, Func)
    assert build_record(replace(record, size=0x31)) == b"FUNC c184 31 0 f\n"
    # Assigning the same value is no change.
    assert build_record(replace(record, size=0x30)) == b"FUNC 00c184 30 0 f\r\n"
    assert build_record(replace(record, spelling=b"FUNC none\n")) == b"FUNC c184 30 0 f\n"


def test_bytes_that_are_no_utf_8_come_back() -> None:
    line = b"FUNC 1 2 3 \xff\xc3 caf\xc3\xa9 \xed\xa0\x80\n"
    record = parse_record(line)
    assert isinstance(record, Func)
    assert record.name == "\udcff\udcc3 café \udced\udca0\udc80"
    assert build_record(replace(record, address=16)) == line.replace(b"FUNC 1", b"FUNC 10")


MALFORMED: list[tuple[bytes, str, str]] = [
    (b"MODULE", "MODULE.operatingsystem", "the line ends before it"),
    (b"MODULE Linux x86 D309", "MODULE.name", "the line ends before it"),
    (b"FILE x a", "FILE.number", "found 'x a', expected decimal number"),
    (b"FILE -1 a", "FILE.number", "found '-1 a', expected decimal number"),
    (b"FILE 1", "FILE.name", "the line ends before it"),
    (b"FILE 1 a\0b", "FILE.name", "found 'a\\x00b', expected rest of the line"),
    (b"FILE 1 a\rb", "FILE.name", "found 'a\\rb', expected rest of the line"),
    (b"FILE 1_0 a", "FILE.number", "found '1_0 a', expected decimal number"),
    ("FILE \u0661 a".encode(), "FILE.number", "found '\u0661 a', expected decimal number"),
    (b"FILE 18446744073709551616 a", "FILE.number", "'18446744073709551616' does not fit in 64 bits"),
    (b"FILE " + b"9" * 5000 + b" a", "FILE.number", f"{'9' * 40!r}... does not fit in 64 bits"),
    (b"FUNC", "FUNC.address", "the line ends before it"),
    (b"FUNC m", "FUNC.address", "found 'm', expected hexadecimal number"),
    (b"FUNC 10", "FUNC.size", "the line ends before it"),
    (b"FUNC 10 2g 0 f", "FUNC.size", "found '2g 0 f', expected hexadecimal number"),
    (b"FUNC 10 20 0", "FUNC.name", "the line ends before it"),
    (b"FUNC 10000000000000000 2 0 f", "FUNC.address", "'10000000000000000' does not fit in 64 bits"),
    (b"FUNC 1 2 0x f", "FUNC.parameter_size", "found '0x f', expected hexadecimal number"),
    (b"FUNC n 1 2 0 f", "FUNC.address", "found 'n 1 2 0 f', expected hexadecimal number"),
    (b"INLINE 0 10 3", "INLINE.ranges", "the line ends before it"),
    (b"INLINE 0 10 3 4", "INLINE.ranges", "the line ends before it"),
    (b"INLINE 0 a 3 4 1 2", "INLINE.call_site_line", "found 'a 3 4 1 2', expected decimal number"),
    (b"INLINE 0 1 3 4 1 x", "INLINE.ranges", "found '1 x', expected pairs of hexadecimal numbers"),
    (b"INLINE 0 1 3 4 1 10000000000000000", "INLINE.ranges", "'10000000000000000' does not fit in 64 bits"),
    (b"c184 7 59", "line record.filenum", "the line ends before it"),
    (b"c184 7 59 4 1", "line record.filenum", "found '4 1', expected decimal number"),
    (b"c184 7 5a 4", "line record.line", "found '5a 4', expected decimal number"),
    (b"1g 7 59 4", "line record.address", "found '1g 7 59 4', expected hexadecimal number"),
    (b"add up", "line record.size", "found 'up', expected hexadecimal number"),
    (b"PUBLIC 1 2", "PUBLIC.name", "the line ends before it"),
    (b"STACK", "STACK", "neither STACK CFI nor STACK WIN"),
    (b"STACK FOO 1", "STACK", "neither STACK CFI nor STACK WIN"),
    (b"STACK WIN 4 1 2", "STACK WIN.prologue_size", "the line ends before it"),
    (b"STACK WIN 4 1 2 3 4 5 6 7 8 1", "STACK WIN.program_string_or_allocates_base_pointer", "the line ends before it"),
    (
        b"STACK WIN 4 1 2 3 4 5 6 7 8 0 1_0",
        "STACK WIN.program_string_or_allocates_base_pointer",
        "found '1_0', expected hexadecimal number",
    ),
    (
        b"STACK WIN 4 1 2 3 4 5 6 7 8 0 ",
        "STACK WIN.program_string_or_allocates_base_pointer",
        "the line ends before it",
    ),
    (
        b"STACK WIN 4 1 2 3 4 5 6 7 8 0 $eip",
        "STACK WIN.program_string_or_allocates_base_pointer",
        "found '$eip', expected hexadecimal number",
    ),
    (b"STACK CFI", "STACK CFI.address", "the line ends before it"),
    (b"STACK CFI 10", "STACK CFI.rules", "the line ends before it"),
    (b"STACK CFI INIT", "STACK CFI INIT.address", "the line ends before it"),
    # So in the document: an INIT record without its size.
    (
        b"STACK CFI INIT 1000 .cfa: $sp .ra: .cfa ^",
        "STACK CFI INIT.size",
        "found '.cfa: $sp .ra: .cfa ^', expected hexadecimal number",
    ),
    (b"STACK CFI 10 $sp 8 +", "STACK CFI.rules", "'$sp' precedes the first register"),
    (b"STACK CFI 10 .cfa:", "STACK CFI.rules", "'.cfa' has no expression"),
    (b"STACK CFI 10 .cfa: .ra: .cfa ^", "STACK CFI.rules", "'.cfa' has no expression"),
    (b"STACK CFI 10 : 8", "STACK CFI.rules", "a colon without a register"),
    (b"INFO", "INFO.text", "the line ends before it"),
    (b"INFO CODE_ID", "INFO CODE_ID.code_id", "the line ends before it"),
    (b"INFO CODE_ID a\0", "INFO CODE_ID.code_id", "found 'a\\x00', expected word"),
    (b"INFO CODE_ID a b\0", "INFO CODE_ID.file", "found 'b\\x00', expected rest of the line, or nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "record", "reason"), MALFORMED, ids=[record for _, record, _ in MALFORMED])
def test_malformed_lines_say_line_and_field(line: bytes, record: str, reason: str) -> None:
    for end in (b"\n", b"\r\n", b""):
        with pytest.raises(ParseError) as caught:
            parse_record(line + end, 12)
        assert (caught.value.record, caught.value.reason) == (f"line 12: {record}", reason)


def test_a_line_feed_inside_a_line_is_refused() -> None:
    for line in (b"a\nb\n", b"FILE 1 a\n\n", b"FILE 1 a\nFILE 2 b"):
        with pytest.raises(ParseError, match="a line feed inside the line"):
            parse_record(line)


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (Line(-1, 0, 0, 0), "line record.address"),
        (Line(0, 0, 0, 1 << 64), "line record.filenum"),
        (File(0, "a\nb"), "FILE.name"),
        (File(0, "a\r"), "FILE.name"),
        (File(0, "a\0"), "FILE.name"),
        (File(0, "\ud800"), "FILE.name"),  # a surrogate that represents no byte
        (File(0, "\udcc3\udca9"), "FILE.name"),  # two that represent the bytes of é
        (Module("Linux", "", "0", "a"), "MODULE.architecture"),
        (Module("Linux", "x 86", "0", "a"), "MODULE.architecture"),
        (Inline(0, 0, 0, 0, ()), "INLINE.ranges"),
        (Inline(0, 0, 0, 0, ((0, -1),)), "INLINE.ranges"),
        (StackCfi(0, ()), "STACK CFI.rules"),
        (StackCfi(0, ((".cfa", ""),)), "STACK CFI.rules"),
        (StackCfi(0, ((".cfa", "8  +"),)), "STACK CFI.rules"),
        (StackCfi(0, ((".cfa", "a: 8"),)), "STACK CFI.rules"),
        (StackCfi(0, (("", "8"),)), "STACK CFI.rules"),
        (StackCfi(0, ((".cfa", "8\n"),)), "STACK CFI.rules"),
        (StackWin(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "$eip"), "STACK WIN.program_string_or_allocates_base_pointer"),
        (StackWin(4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1), "STACK WIN.program_string_or_allocates_base_pointer"),
        (Info("URL x"), "INFO"),
        (Info(" CODE_ID"), "INFO"),
        (Unknown("FILE 1 a"), "unknown"),
        (Unknown("c184"), "unknown"),
        (Unknown("a\nb"), "unknown"),
        (Unknown("# a\r"), "unknown"),
        (Unknown("# \ud800"), "unknown"),
    ],
)
def test_values_that_no_line_can_hold_are_refused(record: Record, place: str) -> None:
    with pytest.raises(BuildError) as caught:
        build_record(record)
    assert caught.value.record == place
