# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The text of entries with their instructions: first of runs, whose text is the same but for PCs, then of entries.

Strategy: a run is decoded and formatted once, with gaps where its PCs go. The text of an entry is a heading and a copy
of its run's text, whose gaps are filled. Text for which there is no space is not written, and begun again.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi
from .protocol import DATA_BYTES_AFTER_HEADING, DATA_BYTES_PER_LINE, Form, HeadingWord, RunStatus, Shown

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64, ConstI64_2D, ConstU8, ConstU8_2D, ConstU64
    from ..raw_text import copy_bytes, decimal_digits, write_decimal, write_digits
    from ..shared.reads import Reader
    from .decoder import Instructions
    from .records import Cies, Streams

DO_ADVANCE = cython.declare(cython.int, int(cfi.Effect.ADVANCE))
DO_SET_LOCATION = cython.declare(cython.int, int(cfi.Effect.SET_LOCATION))

BEFORE = cython.declare(cython.int, int(Form.BEFORE))
FIRST = cython.declare(cython.int, int(Form.FIRST))
AFTER_FIRST = cython.declare(cython.int, int(Form.AFTER_FIRST))
SECOND = cython.declare(cython.int, int(Form.SECOND))
AFTER_SECOND = cython.declare(cython.int, int(Form.AFTER_SECOND))

IS_REGISTER = cython.declare(cython.int, int(Shown.REGISTER))
IS_UNSIGNED = cython.declare(cython.int, int(Shown.UNSIGNED))
IS_WITH_SIGN = cython.declare(cython.int, int(Shown.WITH_SIGN))
IS_BLOCK = cython.declare(cython.int, int(Shown.BLOCK))

DONE = cython.declare(cython.int, int(RunStatus.DONE))
AT_FAULT = cython.declare(cython.int, int(RunStatus.FAULT))
IS_FULL = cython.declare(cython.int, int(RunStatus.FULL))
NEEDS_BLOCK = cython.declare(cython.int, int(RunStatus.BLOCK))

AFTER_NUMBER = cython.declare(cython.longlong, int(HeadingWord.AFTER_NUMBER))
BEFORE_CIE = cython.declare(cython.longlong, int(HeadingWord.BEFORE_CIE))
BEFORE_PC = cython.declare(cython.longlong, int(HeadingWord.BEFORE_PC))
BEFORE_END = cython.declare(cython.longlong, int(HeadingWord.BEFORE_END))
AFTER_HEADING = cython.declare(cython.longlong, int(HeadingWord.AFTER_HEADING))
BEFORE_DATA = cython.declare(cython.longlong, int(HeadingWord.BEFORE_DATA))
DATA_AFTER_HEADING = cython.declare(cython.longlong, DATA_BYTES_AFTER_HEADING)
DATA_PER_LINE = cython.declare(cython.longlong, DATA_BYTES_PER_LINE)

LINE_FEED = cython.declare(cython.int, 10)
SPACE = cython.declare(cython.int, 32)
PLUS = cython.declare(cython.int, 43)
MINUS = cython.declare(cython.int, 45)
LETTER_R = cython.declare(cython.int, 114)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Words:
    """Texts: word w is `text` from start[w] up to start[w + 1]."""

    def __init__(self, text: ConstU8, start: ConstI64) -> None:
        self.text = text
        self.start = start


@cython.final
@cython.cclass
class Output:
    """Memory to write to, and `at`, where the next piece goes. What does not fit is only counted."""

    def __init__(self, out: U8) -> None:
        self.at = 0
        self.write_to(out)

    def write_to(self, out: U8) -> None:
        """Go on in other memory, which has the same bytes before `at`."""
        self.out = out
        self.limit = out.shape[0]

    def put_word(self, words: Words, word: cython.longlong) -> None:
        """A word."""
        size: cython.longlong = words.start[word + 1] - words.start[word]
        if self.at + size <= self.limit:
            copy_bytes(words.text, words.start[word], size, self.out, self.at)
        self.at += size

    def put_byte(self, byte: cython.int) -> None:
        """One byte."""
        if self.at < self.limit:
            self.out[self.at] = byte
        self.at += 1

    def put_digits(self, value: cython.ulonglong, digits: cython.longlong) -> None:
        """The last `digits` hexadecimal digits of a number."""
        if self.at + digits <= self.limit:
            write_digits(value, digits, self.out, self.at)
        self.at += digits

    def put_decimal(self, value: cython.ulonglong, sign: cython.int) -> None:
        """A decimal number after a sign (0: none)."""
        digits: cython.longlong = decimal_digits(value)
        if sign:
            self.put_byte(sign)
        if self.at + digits <= self.limit:
            write_decimal(value, digits, self.out, self.at)
        self.at += digits


@cython.final
@cython.cclass
class RunWriter:
    """Writes the text of runs, and holds the place where it goes on.

    Rows of `forms` are what each opcode's line consists of (`Form`): words, and `Shown` of its operands. Register r is
    the word register_word[r], if there is one. `one` has space for one instruction of `table`.

    Run r ends at `end[r]` of the output, and its gaps at last_gap[r]; gap g is at gap[g], for the PC gap_pc[g], which
    is relative to the function's start. There is space for one gap per byte of instructions.
    """

    def __init__(
        self,
        reader: Reader,
        cies: Cies,
        streams: Streams,
        one: Instructions,
        words: Words,
        output: Output,
        table: ConstU8_2D,
        forms: ConstI64_2D,
        register_word: ConstI64,
        end: I64,
        gap: I64,
        gap_pc: U64,
        last_gap: I64,
        is_absolute: U8,
    ) -> None:
        self.reader = reader
        self.cies = cies
        self.streams = streams
        self.one = one
        self.words = words
        self.output = output
        self.table = table
        self.forms = forms
        self.register_word = register_word
        self.end = end
        self.gap = gap
        self.gap_pc = gap_pc
        self.last_gap = last_gap
        self.is_absolute = is_absolute
        self.stream = 0
        self.is_begun = 0
        self.pc = 0
        self.gaps = 0
        self.block_start = 0
        self.block_end = 0
        self.has_block = 0

    def give_block(self, block: Words) -> None:
        """The text of the next expression, as word 0."""
        self.block = block
        self.has_block = 1

    def put_operand(self, kind: cython.longlong, value: cython.longlong) -> None:
        """An operand; of a block its text."""
        if kind == IS_REGISTER and value < self.register_word.shape[0]:
            self.output.put_word(self.words, self.register_word[value])
        elif kind == IS_REGISTER:
            self.output.put_decimal(value, LETTER_R)
        elif kind == IS_BLOCK:
            self.output.put_word(self.block, 0)
        elif kind == IS_UNSIGNED:
            self.output.put_decimal(value & ALL_ONES, 0)
        elif value < 0:
            self.output.put_decimal(-value, MINUS)
        else:
            self.output.put_decimal(value, PLUS if kind == IS_WITH_SIGN else 0)

    def put_words(self, opcode: cython.int) -> None:
        """The words and operands of the instruction that was read."""
        first: cython.longlong = self.forms[opcode, FIRST]
        second: cython.longlong = self.forms[opcode, SECOND]
        self.output.put_word(self.words, self.forms[opcode, BEFORE])
        if first:
            self.put_operand(first, self.one.first[0])
            self.output.put_word(self.words, self.forms[opcode, AFTER_FIRST])
        if second:
            self.put_operand(second, self.one.second[0])
            self.output.put_word(self.words, self.forms[opcode, AFTER_SECOND])

    def needs_block(self, opcode: cython.int) -> cython.int:
        """Whether the text of the instruction's expression is missing; sets where the expression is."""
        self.block_end = self.reader.offset
        if self.forms[opcode, FIRST] == IS_BLOCK:
            self.block_start = self.block_end - self.one.first[0]
        elif self.forms[opcode, SECOND] == IS_BLOCK:
            self.block_start = self.block_end - self.one.second[0]
        else:
            return 0
        return not self.has_block

    def put_line(self) -> cython.int:
        """The next instruction, with a gap for the PC after a move. Returns why it could not be written, else DONE."""
        begin: cython.longlong = self.reader.offset
        at: cython.longlong = self.output.at
        cie: cython.longlong = self.streams.cie[self.stream]
        opcode: cython.int
        is_move: cython.int
        pc: cython.ulonglong
        self.one.count = 0
        pc = self.one.read(self.reader, self.cies, cie, self.streams.location[self.stream], self.pc)
        opcode = self.one.opcode[0]
        if self.reader.fault:
            self.reader.offset = begin
            return AT_FAULT
        if self.needs_block(opcode):
            self.reader.offset = begin
            return NEEDS_BLOCK
        self.put_words(opcode)
        is_move = self.table[opcode, 0] == DO_ADVANCE or self.table[opcode, 0] == DO_SET_LOCATION
        if is_move:
            self.gap[self.gaps] = self.output.at
            self.gap_pc[self.gaps] = pc
            self.output.at += 2 * self.cies.address_size[cie]
            self.output.put_byte(LINE_FEED)
        if self.output.at > self.output.limit:
            self.output.at = at
            self.reader.offset = begin
            return IS_FULL
        self.gaps += is_move
        if self.table[opcode, 0] == DO_SET_LOCATION:
            self.is_absolute[self.stream] = 1
        self.pc = pc
        self.has_block = 0
        return DONE

    def write(self) -> cython.longlong:
        """Go on with the runs; return a `RunStatus`."""
        status: cython.int
        with cython.nogil:
            while self.stream < self.streams.start.shape[0]:
                if not self.is_begun:
                    self.reader.offset = self.streams.start[self.stream]
                    self.reader.end = self.streams.end[self.stream]
                    self.pc = 0
                    self.is_begun = 1
                while self.reader.offset < self.reader.end:
                    status = self.put_line()
                    if status != DONE:
                        return status
                self.end[self.stream] = self.output.at
                self.last_gap[self.stream] = self.gaps
                self.stream += 1
                self.is_begun = 0
            return DONE


@cython.final
@cython.cclass
class RunTexts:
    """What a `RunWriter` has written: of each run its text, from end[r] up to end[r + 1], and its gaps in the same
    way."""

    def __init__(self, text: ConstU8, end: ConstI64, gap: ConstI64, gap_pc: ConstU64, last_gap: ConstI64) -> None:
        self.text = text
        self.end = end
        self.gap = gap
        self.gap_pc = gap_pc
        self.last_gap = last_gap


@cython.final
@cython.cclass
class Headings:
    """What the heading of an entry shows: the word `word`; if that is negative, the numbers of an FDE, whose addresses
    have `digits` and whose id has `id_digits`. The augmentation data, of `data_size` bytes, follow in `section`."""

    def __init__(
        self,
        words: Words,
        section: ConstU8,
        word: ConstI64,
        offset: ConstI64,
        length: ConstI64,
        entry_id: ConstU64,
        cie_offset: ConstI64,
        start: ConstU64,
        end: ConstU64,
        digits: ConstI64,
        id_digits: ConstI64,
        data: ConstI64,
        data_size: ConstI64,
    ) -> None:
        self.words = words
        self.word = word
        self.offset = offset
        self.length = length
        self.entry_id = entry_id
        self.cie_offset = cie_offset
        self.start = start
        self.end = end
        self.digits = digits
        self.id_digits = id_digits
        self.section = section
        self.data = data
        self.data_size = data_size

    def put_number(
        self, output: Output, value: cython.ulonglong, digits: cython.longlong, word: cython.longlong
    ) -> None:
        """A number in hexadecimal and the word after it."""
        output.put_digits(value, digits)
        output.put_word(self.words, word)

    def put_heading(self, entry: cython.longlong, output: Output) -> None:
        """The heading without augmentation data."""
        digits: cython.longlong = self.digits[entry]
        if self.word[entry] >= 0:
            output.put_word(self.words, self.word[entry])
            return
        output.put_byte(LINE_FEED)
        self.put_number(output, self.offset[entry], 8, AFTER_NUMBER)
        self.put_number(output, self.length[entry], digits, AFTER_NUMBER)
        self.put_number(output, self.entry_id[entry], self.id_digits[entry], BEFORE_CIE)
        self.put_number(output, self.cie_offset[entry], 8, BEFORE_PC)
        self.put_number(output, self.start[entry], digits, BEFORE_END)
        self.put_number(output, self.end[entry], digits, AFTER_HEADING)

    def put_data(self, entry: cython.longlong, output: Output) -> None:
        """The augmentation data, if there are any."""
        size: cython.longlong = self.data_size[entry]
        index: cython.longlong
        if not size:
            return
        output.put_word(self.words, BEFORE_DATA)
        for index in range(size):
            if size >= DATA_AFTER_HEADING and index % DATA_PER_LINE == 0:
                output.put_byte(LINE_FEED)
            output.put_byte(SPACE)
            output.put_digits(self.section[self.data[entry] + index], 2)
        output.put_byte(LINE_FEED)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_run(
    texts: RunTexts, run: cython.longlong, start: cython.ulonglong, digits: cython.longlong, output: Output
) -> cython.longlong:
    """The text of a run of the function at `start`; return its size."""
    begin: cython.longlong = texts.end[run]
    size: cython.longlong = texts.end[run + 1] - begin
    gap: cython.longlong
    if output.at + size <= output.limit:
        copy_bytes(texts.text, begin, size, output.out, output.at)
        for gap in range(texts.last_gap[run], texts.last_gap[run + 1]):
            write_digits(start + texts.gap_pc[gap] & ALL_ONES, digits, output.out, output.at + texts.gap[gap] - begin)
    output.at += size
    return size


@cython.ccall
@cython.exceptval(-1, check=False)
def write_entries(
    headings: Headings, texts: RunTexts, run: ConstI64, first: cython.longlong, output: Output
) -> cython.longlong:
    """Write entries from `first` on, as far as they fit; return the number of the first that does not. `run` is the run
    of each, or -1."""
    entry: cython.longlong
    at: cython.longlong
    with cython.nogil:
        for entry in range(first, run.shape[0]):
            at = output.at
            headings.put_heading(entry, output)
            headings.put_data(entry, output)
            if run[entry] >= 0:
                put_run(texts, run[entry], headings.start[entry], headings.digits[entry], output)
            if output.at > output.limit:
                output.at = at
                return entry
        return run.shape[0]
