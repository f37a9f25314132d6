"""Breakpad symbol files: every record, declared (Breakpad, docs/symbol_files.md).

Strategy: fields in the document's order, under its names. `files` reads and writes lines by these
declarations; `strategies.breakpad` and the field tables of the manual are derived from them too.
"""

from __future__ import annotations

from ..text_records import (
    DECIMAL,
    HEXADECIMAL,
    Either,
    Mark,
    Maybe,
    Ranges,
    Raw,
    Record,
    Rule,
    Rules,
    Text,
    Word,
    line_record,
    part,
)

# Names in the expressions of STACK CFI rules: the CFA, the return address, and the expression of a register whose
# value cannot be recovered.
CFA_NAME = ".cfa"
RA_NAME = ".ra"
UNDEFINED = ".undef"


@line_record
class Module(Record):
    """MODULE: the file that the symbols belong to."""

    operatingsystem: str = part(Word(), "Linux, mac, windows, ...")
    architecture: str = part(Word(), "x86, x86_64, arm64, ...")
    id: str = part(Word(), "identifies the file: hexadecimal digits, whose case is kept")
    name: str = part(Text(), "base name of the file")


@line_record
class InfoCodeId(Record):
    """INFO CODE_ID: the identifier that the system uses for the file (written by dump_syms; not in the document)."""

    code_id: str = part(Word(), "the build id, for ELF files")
    file: str | None = part(Maybe(Text()), "name of the code file, or nothing")


@line_record
class InfoGenerator(Record):
    """INFO GENERATOR: the tool that wrote the file (not in the document)."""

    generator: str = part(Text(), "name and version")


@line_record
class InfoUrl(Record):
    """INFO URL: where to get the file (not in the document)."""

    url: str = part(Text(), "the URL")


@line_record
class Info(Record):
    """INFO: anything else (not in the document)."""

    text: str = part(Text(), "kept as it is")


@line_record
class File(Record):
    """FILE: a source file's name."""

    number: int = part(DECIMAL, "its number in other records")
    name: str = part(Text(), "its name")


@line_record
class InlineOrigin(Record):
    """INLINE_ORIGIN: an inline function's name."""

    number: int = part(DECIMAL, "its number in INLINE records")
    name: str = part(Text(), "its name")


@line_record
class Func(Record):
    """FUNC: a function of the source language, one contiguous range."""

    m: bool = part(Mark("m"), "several symbols refer to these instructions")
    address: int = part(HEXADECIMAL, "start, from the load address")
    size: int = part(HEXADECIMAL, "size in bytes")
    parameter_size: int = part(HEXADECIMAL, "bytes of the arguments pushed for it")
    name: str = part(Text(), "its name, unmangled")


@line_record
class Inline(Record):
    """INLINE: where an inline function's code is, and where it is called from. Belongs to the last FUNC."""

    inline_nest_level: int = part(DECIMAL, "0: inlined into the function; n: into the last record of level n - 1")
    call_site_line: int = part(DECIMAL, "line of the call")
    call_site_file_num: int | None = part(Maybe(DECIMAL), "FILE of the call; absent in old files")
    origin_num: int = part(DECIMAL, "its INLINE_ORIGIN")
    ranges: tuple[tuple[int, int], ...] = part(Ranges(), "address, from the load address, and size of each range")


@line_record
class Line(Record):
    """A line record: where some code comes from. Belongs to the last FUNC."""

    address: int = part(HEXADECIMAL, "start, from the load address")
    size: int = part(HEXADECIMAL, "size in bytes")
    line: int = part(DECIMAL, "line, from 1; 0 for none")
    filenum: int = part(DECIMAL, "its FILE")


@line_record
class Public(Record):
    """PUBLIC: a linker symbol."""

    m: bool = part(Mark("m"), "several symbols refer to this address")
    address: int = part(HEXADECIMAL, "from the load address")
    parameter_size: int = part(HEXADECIMAL, "bytes of the parameters, if known")
    name: str = part(Text(), "its name, unmangled")


@line_record
class StackWin(Record):
    """STACK WIN: how to find the caller's frame, on Windows for x86."""

    type: int = part(HEXADECIMAL, "StackFrameTypeEnum: 0 FrameTypeFPO, 4 FrameTypeFrameData, others are ignored")
    rva: int = part(HEXADECIMAL, "start of the code, from the load address")
    code_size: int = part(HEXADECIMAL, "size in bytes")
    prologue_size: int = part(HEXADECIMAL, "bytes of the prologue")
    epilogue_size: int = part(HEXADECIMAL, "bytes of the epilogue")
    parameter_size: int = part(HEXADECIMAL, "bytes of the arguments passed to it")
    saved_register_size: int = part(HEXADECIMAL, "bytes of the frame that hold saved registers")
    local_size: int = part(HEXADECIMAL, "bytes of the frame that hold local variables")
    max_stack_size: int = part(HEXADECIMAL, "the most bytes pushed on the stack")
    has_program_string: int = part(HEXADECIMAL, "decides what the last field is")
    program_string_or_allocates_base_pointer: str | int = part(
        Either("has_program_string", Text(), HEXADECIMAL),
        "the program string, or whether %ebp is a general register",
    )


@line_record
class StackCfiInit(Record):
    """STACK CFI INIT: the rules at the start of a range, which following STACK CFI records change."""

    address: int = part(HEXADECIMAL, "start of the range, from the load address")
    size: int = part(HEXADECIMAL, "bytes of the range")
    rules: tuple[Rule, ...] = part(Rules(), "register and expression of each")


@line_record
class StackCfi(Record):
    """STACK CFI: the rules that change at an address."""

    address: int = part(HEXADECIMAL, "first address they apply to, from the load address")
    rules: tuple[Rule, ...] = part(Rules(), "register and expression of each")


@line_record
class Unknown(Record):
    """A line whose first word names no record, such as a blank line."""

    line: str = part(Raw(), "the line")


# The words that a record begins with. A line record has none; its first field identifies it.
RECORDS: dict[str, type[Record]] = {
    "MODULE": Module,
    "INFO CODE_ID": InfoCodeId,
    "INFO GENERATOR": InfoGenerator,
    "INFO URL": InfoUrl,
    "INFO": Info,
    "FILE": File,
    "INLINE_ORIGIN": InlineOrigin,
    "FUNC": Func,
    "INLINE": Inline,
    "": Line,
    "PUBLIC": Public,
    "STACK WIN": StackWin,
    "STACK CFI INIT": StackCfiInit,
    "STACK CFI": StackCfi,
}
NAMES: dict[type[Record], str] = {cls: head or "line record" for head, cls in RECORDS.items()} | {Unknown: "unknown"}
