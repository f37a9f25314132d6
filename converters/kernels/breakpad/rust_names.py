# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rust's mangled names, of the v0 scheme (RFC 2603) and of the legacy one, as text without hashes.

Strategy: the usual part of both grammars; a name with anything else is left to a library. Text is written while a name
is read. A back reference is followed only where it is written, so that a bound of the text bounds the time too.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstU8

# Compilers nest a few dozen deep.
MAX_DEPTH = cython.declare(cython.int, 128)
# Of 64 bits are numbers of base 62. One up to here does not overflow when a digit is added, and 2.
MAX_NUMBER = cython.declare(cython.ulonglong, ((1 << 64) - 64) // 62)
DIGITS_MAX = cython.declare(cython.int, 16)
SPACE = cython.declare(cython.int, ord(" "))
TYPE_SIZE = cython.declare(cython.int, 5)
# The types of the letters from "a" on; spaces for a letter that is none.
BASIC_TYPES = cython.declare(
    bytes,
    b"i8   bool char f64  str  f32       u8   isize"
    b"usize     i32  u32  i128 u128 _              "
    b"i16  u16  ()   ...       i64  u64  !    ",
)
LETTERS = cython.declare(cython.ulonglong, 26)
# "_R" or "_ZN"; "17h", 16 digits and "E".
V0_START = cython.declare(cython.int, 2)
LEGACY_START = cython.declare(cython.int, 3)
HASH_SIZE = cython.declare(cython.int, 20)


@cython.final
@cython.cclass
class Names:
    """Mangled names, and their texts one after the other in `out`. `data` from `at` up to `end` is left of the name
    that is read; its text begins at `begin`, ends at `size`, and may not reach `limit`. `wrong`: it is left to others.
    `quiet`: nothing is written. `bound` lifetimes are named."""

    def __init__(self, data: ConstU8, out: U8) -> None:
        self.data = data
        self.out = out
        self.size = 0
        self.reset(0, 0, 0)

    def reset(self, start: cython.longlong, end: cython.longlong, limit: cython.longlong) -> None:
        """Begin with a name."""
        self.start = self.at = start
        self.end = end
        self.begin = self.size
        self.limit = self.size + limit
        if self.limit > self.out.shape[0]:
            self.limit = self.out.shape[0]
        self.depth = self.quiet = self.wrong = 0
        self.bound = 0

    def peek(self) -> cython.int:
        """The next character; 0 at the end."""
        return self.data[self.at] if self.at < self.end else 0

    def next(self) -> cython.int:
        """Read a character."""
        found: cython.int = 0
        if self.at < self.end:
            found = self.data[self.at]
            self.at += 1
        else:
            self.wrong = 1
        return found

    def eat(self, character: cython.int) -> cython.int:
        """Read this character if it is the next one."""
        if self.at < self.end and self.data[self.at] == character:
            self.at += 1
            return 1
        return 0

    def put(self, text: bytes) -> None:
        """Write some characters."""
        size: cython.longlong = len(text)
        index: cython.longlong
        if self.quiet or self.wrong:
            return
        if size >= self.limit - self.size:
            self.wrong = 1
            return
        if cython.compiled:
            for index in range(size):
                self.out[self.size + index] = text[index]
        else:
            self.out[self.size : self.size + size] = text
        self.size += size

    def put_part(self, first: cython.longlong, last: cython.longlong) -> None:
        """Write the characters of the name from `first` up to `last`."""
        index: cython.longlong
        if self.quiet or self.wrong:
            return
        if last - first >= self.limit - self.size:
            self.wrong = 1
            return
        if cython.compiled:
            for index in range(last - first):
                self.out[self.size + index] = self.data[first + index]
        else:
            self.out[self.size : self.size + last - first] = self.data[first:last]
        self.size += last - first

    def put_character(self, character: cython.int) -> None:
        """Write one character."""
        if self.quiet or self.wrong:
            return
        if self.limit - self.size <= 1:
            self.wrong = 1
            return
        self.out[self.size] = cython.cast(cython.uchar, character)
        self.size += 1

    def put_number(self, value: cython.ulonglong) -> None:
        """Write a number in base 10."""
        power: cython.ulonglong = 1
        while value // power > 9:
            power = power * 10
        while power:
            self.put_character(ord("0") + cython.cast(cython.int, value // power % 10))
            power = power // 10

    def number(self) -> cython.ulonglong:
        """Read a number of base 62, with the underscore at its end."""
        value: cython.ulonglong = 0
        one: cython.int = self.next()
        if one == ord("_"):
            return 0
        while one != ord("_") and not self.wrong:
            if one >= ord("0") and one <= ord("9"):
                one -= ord("0")
            elif one >= ord("a") and one <= ord("z"):
                one -= ord("a") - 10
            elif one >= ord("A") and one <= ord("Z"):
                one -= ord("A") - 36
            else:
                self.wrong = 1
            if value >= MAX_NUMBER:
                self.wrong = 1
            if self.wrong:
                return 0
            value = value * 62 + cython.cast(cython.ulonglong, one)
            one = self.next()
        return value + 1

    def optional_number(self, tag: cython.int) -> cython.ulonglong:
        """Read a number after `tag`, 0 if there is none, of which it is one more."""
        return self.number() + 1 if self.eat(tag) else 0

    def identifier(self, has_separator: cython.int) -> cython.longlong:
        """Read an identifier; its size. It ends at `at`. `has_separator`: an underscore may be before it."""
        size: cython.longlong = 0
        one: cython.int = self.peek()
        if one < ord("0") or one > ord("9"):
            self.wrong = 1
            return 0
        if not self.eat(ord("0")):
            while one >= ord("0") and one <= ord("9") and size < self.end:
                size = size * 10 + one - ord("0")
                self.at += 1
                one = self.peek()
        if has_separator:
            self.eat(ord("_"))
        if size > self.end - self.at:
            self.wrong = 1
            return 0
        self.at += size
        return size

    def enter(self) -> None:
        """One level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.wrong = 1

    def path(self, in_value: cython.int) -> None:
        """A path; `in_value`: two colons are before its generic arguments."""
        tag: cython.int = self.next()
        saved: cython.longlong
        self.enter()
        if self.wrong:
            return
        if tag == ord("C"):
            self.optional_number(ord("s"))
            saved = self.identifier(1)
            self.put_part(self.at - saved, self.at)
        elif tag == ord("N"):
            self.nested(in_value)
        elif tag == ord("I"):
            self.path(in_value)
            self.put(b"::<" if in_value else b"<")
            self.arguments()
            self.put(b">")
        elif tag == ord("M") or tag == ord("X") or tag == ord("Y"):
            if tag != ord("Y"):
                self.optional_number(ord("s"))
                self.quiet += 1
                self.path(0)
                self.quiet -= 1
            self.put(b"<")
            self.type()
            if tag != ord("M"):
                self.put(b" as ")
                self.path(0)
            self.put(b">")
        elif tag == ord("B"):
            saved = self.go_back()
            if saved:
                self.path(in_value)
                self.at = saved
        else:
            self.wrong = 1
        self.depth -= 1

    def nested(self, in_value: cython.int) -> None:
        """What is inside a path: a name, or a namespace with a number."""
        kind: cython.int = self.next()
        number: cython.ulonglong
        size: cython.longlong
        self.path(in_value)
        number = self.optional_number(ord("s"))
        size = self.identifier(1)
        if kind >= ord("a") and kind <= ord("z"):
            if size:
                self.put(b"::")
                self.put_part(self.at - size, self.at)
            return
        if kind < ord("A") or kind > ord("Z"):
            self.wrong = 1
            return
        self.put(b"::{")
        if kind == ord("C"):
            self.put(b"closure")
        elif kind == ord("S"):
            self.put(b"shim")
        else:
            self.put_character(kind)
        if size:
            self.put(b":")
            self.put_part(self.at - size, self.at)
        self.put(b"#")
        self.put_number(number)
        self.put(b"}")

    def go_back(self) -> cython.longlong:
        """Follow a back reference; where to go on after it. 0 if it is not followed."""
        before: cython.longlong = self.at - 1 - self.start
        offset: cython.ulonglong = self.number()
        saved: cython.longlong = self.at
        if offset >= cython.cast(cython.ulonglong, before):
            self.wrong = 1
        if self.quiet or self.wrong:
            return 0
        self.at = self.start + cython.cast(cython.longlong, offset)
        return saved

    def arguments(self) -> None:
        """Generic arguments, up to their end."""
        count: cython.longlong = 0
        while not self.eat(ord("E")) and not self.wrong:
            if count:
                self.put(b", ")
            count += 1
            if self.eat(ord("L")):
                self.lifetime(self.number())
            elif self.eat(ord("K")):
                self.constant()
            else:
                self.type()

    def lifetime(self, index: cython.ulonglong) -> None:
        """A lifetime; index 1 is the last one that was bound."""
        if index == 0:
            self.put(b"'_")
        elif index > self.bound or self.bound - index >= LETTERS:
            self.wrong = 1
        else:
            self.put_character(ord("'"))
            self.put_character(ord("a") + cython.cast(cython.int, self.bound - index))

    def types(self) -> cython.longlong:
        """Types, up to their end; how many."""
        count: cython.longlong = 0
        while not self.eat(ord("E")) and not self.wrong:
            if count:
                self.put(b", ")
            count += 1
            self.type()
        return count

    def type(self) -> None:
        """A type."""
        tag: cython.int = self.next()
        saved: cython.longlong
        self.enter()
        if self.wrong:
            return
        if tag >= ord("a") and tag <= ord("z"):
            self.basic_type(tag)
        elif tag == ord("R") or tag == ord("Q"):
            self.reference(tag)
        elif tag == ord("P") or tag == ord("O"):
            self.put(b"*const " if tag == ord("P") else b"*mut ")
            self.type()
        elif tag == ord("A") or tag == ord("S"):
            self.put(b"[")
            self.type()
            if tag == ord("A"):
                self.put(b"; ")
                self.constant()
            self.put(b"]")
        elif tag == ord("T"):
            self.put(b"(")
            if self.types() == 1:
                self.put(b",")
            self.put(b")")
        elif tag == ord("F"):
            self.function()
        elif tag == ord("D"):
            self.traits()
        elif tag == ord("B"):
            saved = self.go_back()
            if saved:
                self.type()
                self.at = saved
        else:
            self.at -= 1
            self.path(0)
        self.depth -= 1

    def reference(self, tag: cython.int) -> None:
        """A type of references."""
        index: cython.ulonglong = 0
        self.put(b"&")
        if self.eat(ord("L")):
            index = self.number()
        if index:
            self.lifetime(index)
            self.put(b" ")
        if tag == ord("Q"):
            self.put(b"mut ")
        self.type()

    def basic_type(self, tag: cython.int) -> None:
        """A type of one letter."""
        first: cython.longlong = (tag - ord("a")) * cython.cast(cython.longlong, TYPE_SIZE)
        size: cython.longlong = 0
        while size < TYPE_SIZE and BASIC_TYPES[first + size] != SPACE:
            self.put_character(BASIC_TYPES[first + size])
            size += 1
        if size == 0:
            self.wrong = 1

    def bind(self) -> cython.ulonglong:
        """The lifetimes that a type of functions or traits names; how many."""
        count: cython.ulonglong = self.optional_number(ord("G"))
        left: cython.ulonglong = count
        if count > LETTERS:
            self.wrong = 1
        if count == 0 or self.wrong:
            return 0
        self.put(b"for<")
        while left:
            self.bound += 1
            self.lifetime(1)
            left -= 1
            self.put(b", " if left else b"> ")
        return count

    def function(self) -> None:
        """A type of functions."""
        bound: cython.ulonglong = self.bind()
        if self.eat(ord("U")):
            self.put(b"unsafe ")
        if self.eat(ord("K")):
            # Other calling conventions are rare.
            if not self.eat(ord("C")):
                self.wrong = 1
            self.put(b'extern "C" ')
        self.put(b"fn(")
        self.types()
        self.put(b")")
        if not self.eat(ord("u")):
            self.put(b" -> ")
            self.type()
        self.bound -= bound

    def traits(self) -> None:
        """A type of objects with traits."""
        count: cython.longlong = 0
        bound: cython.ulonglong
        self.put(b"dyn ")
        bound = self.bind()
        while not self.eat(ord("E")) and not self.wrong:
            if count:
                self.put(b" + ")
            count += 1
            self.one_trait()
        self.bound -= bound
        if not self.eat(ord("L")):
            self.wrong = 1
        bound = self.number()
        if bound:
            self.put(b" + ")
            self.lifetime(bound)

    def one_trait(self) -> None:
        """A trait with its generic arguments and associated types, which share a pair of brackets."""
        is_open: cython.int = self.open_trait()
        size: cython.longlong
        while self.eat(ord("p")) and not self.wrong:
            self.put(b", " if is_open else b"<")
            is_open = 1
            size = self.identifier(1)
            self.put_part(self.at - size, self.at)
            self.put(b" = ")
            if self.eat(ord("K")):
                self.constant()
            else:
                self.type()
        if is_open:
            self.put(b">")

    def open_trait(self) -> cython.int:
        """The path of a trait; 1 if the bracket of its generic arguments is open."""
        is_open: cython.int = 0
        saved: cython.longlong
        self.enter()
        if self.wrong:
            return 0
        if self.eat(ord("B")):
            saved = self.go_back()
            if saved:
                is_open = self.open_trait()
                self.at = saved
        elif self.eat(ord("I")):
            self.path(0)
            self.put(b"<")
            self.arguments()
            is_open = 1
        else:
            self.path(0)
        self.depth -= 1
        return is_open

    def constant(self) -> None:
        """A constant: an integer, a truth value or a placeholder."""
        tag: cython.int = self.next()
        value: cython.ulonglong
        if tag == ord("p"):
            self.put(b"_")
            return
        if tag == ord("B"):
            self.constant_before()
            return
        if (
            tag == ord("a")
            or tag == ord("s")
            or tag == ord("l")
            or tag == ord("x")
            or tag == ord("n")
            or tag == ord("i")
        ):
            if self.eat(ord("n")):
                self.put(b"-")
        elif not (tag == ord("h") or tag == ord("t") or tag == ord("m") or tag == ord("y") or tag == ord("o")):
            if tag != ord("j") and tag != ord("b"):
                self.wrong = 1
        value = self.hexadecimal()
        if tag == ord("b"):
            if value > 1:
                self.wrong = 1
            self.put(b"true" if value else b"false")
        else:
            self.put_number(value)

    def hexadecimal(self) -> cython.ulonglong:
        """Read a number of base 16, with the underscore at its end."""
        value: cython.ulonglong = 0
        digits: cython.longlong = 0
        one: cython.int
        one = self.next()
        while one != ord("_") and not self.wrong:
            digits += 1
            if one >= ord("0") and one <= ord("9"):
                one -= ord("0")
            elif one >= ord("a") and one <= ord("f"):
                one -= ord("a") - 10
            else:
                self.wrong = 1
            if digits > DIGITS_MAX:
                self.wrong = 1
            if self.wrong:
                return 0
            value = value << 4 | cython.cast(cython.ulonglong, one)
            one = self.next()
        return value

    def constant_before(self) -> None:
        """The constant that a back reference leads to."""
        saved: cython.longlong = self.go_back()
        self.enter()
        if saved and not self.wrong:
            self.constant()
            self.at = saved
        self.depth -= 1

    def v0(self) -> None:
        """A name of the v0 scheme, after its start; of the crate that instantiates it nothing is written. A clone's
        number remains."""
        clone: cython.longlong
        self.path(1)
        if self.at < self.end and self.peek() != ord(".") and not self.wrong:
            self.quiet = 1
            self.path(0)
            self.quiet = 0
        if self.at < self.end and self.peek() == ord(".") and not self.wrong:
            clone = self.at
            self.at += 1
            while self.peek() >= ord("0") and self.peek() <= ord("9"):
                self.at += 1
            self.put_part(clone, self.at)
        if self.at < self.end:
            self.wrong = 1

    def legacy(self) -> None:
        """A name of the legacy scheme, after its start."""
        count: cython.longlong = 0
        size: cython.longlong
        self.end -= HASH_SIZE
        while self.at < self.end and not self.wrong:
            size = self.identifier(0)
            if self.wrong or size == 0:
                self.wrong = 1
                return
            if count:
                self.put(b"::")
            count += 1
            self.component(self.at - size, self.at)
        if count == 0:
            self.wrong = 1

    def component(self, first: cython.longlong, last: cython.longlong) -> None:
        """A component of a legacy name, without escapes. Two dots separate components inside it, but not after the last
        escape unless they follow it."""
        escaped: cython.longlong
        following: cython.longlong
        if self.data[first] == ord("_") and last - first > 1 and self.data[first + 1] == ord("$"):
            first += 1
        escaped = self.after_last(ord("$"), first, last)
        while first < escaped and not self.wrong:
            if self.data[first] == ord("$"):
                following = self.find(ord("$"), first + 1, escaped)
                self.escape(first + 1, following)
                first = following + 1
            elif self.data[first] == ord(".") and self.data[first + 1] == ord("."):
                self.put(b"::")
                first += 2
            else:
                following = self.find(ord("$"), first, self.find(ord("."), first + 1, escaped))
                self.put_part(first, following)
                first = following
        while last - first > 1 and self.data[first] == ord(".") and self.data[first + 1] == ord("."):
            self.put(b"::")
            first += 2
        if first < last:
            self.put_part(first, last)

    def find(self, character: cython.int, first: cython.longlong, last: cython.longlong) -> cython.longlong:
        """Where a character is first from `first` on; `last` if it is not before that."""
        if not cython.compiled:
            found = bytes(self.data[first:last]).find(character)
            return last if found < 0 else first + found
        while first < last and self.data[first] != character:
            first += 1
        return first

    def after_last(self, character: cython.int, first: cython.longlong, last: cython.longlong) -> cython.longlong:
        """The place after the last one where a character is; `first` if it is not there."""
        if not cython.compiled:
            return first + bytes(self.data[first:last]).rfind(character) + 1
        while last > first and self.data[last - 1] != character:
            last -= 1
        return last

    def escape(self, first: cython.longlong, last: cython.longlong) -> None:
        """The character that an escape is for."""
        one: cython.int = self.data[first]
        two: cython.int = self.data[first + 1]
        code: cython.int = 0
        digit: cython.int
        if last - first == 1 and one == ord("C"):
            code = ord(",")
        elif last - first == 2:
            if one == ord("S") and two == ord("P"):
                code = ord("@")
            elif one == ord("B") and two == ord("P"):
                code = ord("*")
            elif one == ord("R") and two == ord("F"):
                code = ord("&")
            elif one == ord("L") and two == ord("T"):
                code = ord("<")
            elif one == ord("G") and two == ord("T"):
                code = ord(">")
            elif one == ord("L") and two == ord("P"):
                code = ord("(")
            elif one == ord("R") and two == ord("P"):
                code = ord(")")
        elif last - first == 3 and one == ord("u"):
            # Characters of ASCII; of others the library knows which are printed.
            if two >= ord("2") and two <= ord("7"):
                digit = self.data[first + 2]
                if digit >= ord("0") and digit <= ord("9"):
                    code = (two - ord("0")) * 16 + digit - ord("0")
                elif digit >= ord("a") and digit <= ord("f"):
                    code = (two - ord("0")) * 16 + digit - ord("a") + 10
        if code == 0 or code == 0x7F:
            self.wrong = 1
        else:
            self.put_character(code)


@cython.ccall
@cython.exceptval(-1, check=False)
def demangle(
    names: Names, start: ConstI64, is_legacy: ConstU8, text: I64, first: cython.longlong, expansion: cython.longlong
) -> cython.longlong:
    """Demangle names from `first` on until the space of `out` may not be enough; return how many are done. Name i is
    from start[i] up to start[i + 1], its text from text[i] up to text[i + 1], but from 0 for `first`: at most
    `expansion` times as long, and without characters if it is left to others."""
    index: cython.longlong
    size: cython.longlong
    for index in range(first, start.shape[0] - 1):
        size = start[index + 1] - start[index]
        if expansion * size > names.out.shape[0] - names.size:
            return index
        names.reset(start[index] + (LEGACY_START if is_legacy[index] else V0_START), start[index + 1], expansion * size)
        if is_legacy[index]:
            names.legacy()
        else:
            names.v0()
        if names.wrong:
            names.size = names.begin
        text[index + 1] = names.size
    return start.shape[0] - 1
