# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""C++'s mangled names as trees (Itanium C++ ABI, 5.1).

Strategy: the usual part of the grammar; a name with anything else, such as an expression, is left to a demangler. A
substitution refers to a node that exists already, so the size of a tree is in proportion to that of its name.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import NameNode

if not cython.compiled:
    from ..array_types import I32, U8, ConstU8

NAME = cython.declare(cython.int, int(NameNode.NAME))
WORD = cython.declare(cython.int, int(NameNode.WORD))
BUILTIN = cython.declare(cython.int, int(NameNode.BUILTIN))
STANDARD = cython.declare(cython.int, int(NameNode.STANDARD))
NESTED = cython.declare(cython.int, int(NameNode.NESTED))
LOCAL = cython.declare(cython.int, int(NameNode.LOCAL))
TEMPLATE = cython.declare(cython.int, int(NameNode.TEMPLATE))
ARGUMENTS = cython.declare(cython.int, int(NameNode.ARGUMENTS))
ITEM = cython.declare(cython.int, int(NameNode.ITEM))
CONSTRUCTOR = cython.declare(cython.int, int(NameNode.CONSTRUCTOR))
DESTRUCTOR = cython.declare(cython.int, int(NameNode.DESTRUCTOR))
CONVERSION = cython.declare(cython.int, int(NameNode.CONVERSION))
TAGGED = cython.declare(cython.int, int(NameNode.TAGGED))
LAMBDA = cython.declare(cython.int, int(NameNode.LAMBDA))
UNNAMED = cython.declare(cython.int, int(NameNode.UNNAMED))
POINTER = cython.declare(cython.int, int(NameNode.POINTER))
REFERENCE = cython.declare(cython.int, int(NameNode.REFERENCE))
RVALUE_REFERENCE = cython.declare(cython.int, int(NameNode.RVALUE_REFERENCE))
CONST = cython.declare(cython.int, int(NameNode.CONST))
VOLATILE = cython.declare(cython.int, int(NameNode.VOLATILE))
RESTRICT = cython.declare(cython.int, int(NameNode.RESTRICT))
FUNCTION = cython.declare(cython.int, int(NameNode.FUNCTION))
ARRAY = cython.declare(cython.int, int(NameNode.ARRAY))
MEMBER = cython.declare(cython.int, int(NameNode.MEMBER))
PARAMETER = cython.declare(cython.int, int(NameNode.PARAMETER))
EXPANSION = cython.declare(cython.int, int(NameNode.EXPANSION))
LITERAL = cython.declare(cython.int, int(NameNode.LITERAL))
ENCODING = cython.declare(cython.int, int(NameNode.ENCODING))
UNARY = cython.declare(cython.int, int(NameNode.UNARY))
BINARY = cython.declare(cython.int, int(NameNode.BINARY))
CALL = cython.declare(cython.int, int(NameNode.CALL))
DECLTYPE = cython.declare(cython.int, int(NameNode.DECLTYPE))
ARGUMENT = cython.declare(cython.int, int(NameNode.ARGUMENT))

# Qualifiers of functions, as bits: <CV-qualifiers>, <ref-qualifier>.
IS_CONST = cython.declare(cython.int, 1)
IS_VOLATILE = cython.declare(cython.int, 2)
IS_RESTRICT = cython.declare(cython.int, 4)
IS_REFERENCE = cython.declare(cython.int, 8)
IS_RVALUE = cython.declare(cython.int, 16)

NOTHING = cython.declare(cython.int, -1)
# Compilers nest a few dozen deep.
MAX_DEPTH = cython.declare(cython.int, 100)
# Numbers are below this; no name has as many parameters, unnamed types or substitutions.
MAX_NUMBER = cython.declare(cython.int, 1 << 20)
# The word of the abbreviation of a standard class is followed by that of its whole name, and that of its constructor.
WHOLE = cython.declare(cython.int, 1)
CLASS = cython.declare(cython.int, 2)
LETTERS = cython.declare(cython.int, 128)
# GCC's identifier of an unnamed namespace begins with this, one of `._$`, and N.
UNNAMED_NAMESPACE = cython.declare(cython.int, 10)


@cython.final
@cython.cclass
class Nodes:
    """Columns of nodes: `NameNode`, and what it refers to."""

    def __init__(self, kind: U8, left: I32, right: I32, extra: I32) -> None:
        self.kind = kind
        self.left = left
        self.right = right
        self.extra = extra


@cython.final
@cython.cclass
class Tree:
    """The tree of a name: `data` from `start` up to `end`, of which what is before `at` is read. `pairs` are the words
    of two letters, and `builtins` the types of one, as numbers; 0 for none. `substitutions` has space for those of one
    name. `is_whole`: abbreviations of standard classes are never printed as such. `wrong`: the name is left to others.

    While a name is read: `arguments` of the template that parameters refer to; `identifier`, the last one, which names
    constructors; `qualifiers` of the last nested name; how many `lambdas` contain what is read."""

    def __init__(
        self, data: ConstU8, pairs: ConstU8, builtins: ConstU8, nodes: Nodes, substitutions: I32, is_whole: cython.int
    ) -> None:
        self.data = data
        self.pairs = pairs
        self.builtins = builtins
        self.nodes = nodes
        self.substitutions = substitutions
        self.is_whole = is_whole

    def read(self, start: cython.longlong, end: cython.longlong) -> cython.int:
        """Read a name; its root."""
        root: cython.int
        self.start = start
        self.at = start + 2
        self.end = end
        self.count = self.substitution_count = self.wrong = self.depth = self.lambdas = self.qualifiers = 0
        self.arguments = self.identifier = NOTHING
        root = self.encoding()
        if self.at != self.end:
            self.wrong = 1
        return root

    def peek(self, offset: cython.int) -> cython.int:
        """A character that follows; 0 after the end."""
        return self.data[self.at + offset] if self.at + offset < self.end else 0

    def eat(self, character: cython.int) -> cython.int:
        """Read this character if it is the next one."""
        if self.peek(0) != character:
            return 0
        self.at += 1
        return 1

    def need(self, character: cython.int) -> None:
        """Read this character."""
        if not self.eat(character):
            self.wrong = 1

    def make(self, kind: cython.int, left: cython.int, right: cython.int, extra: cython.int) -> cython.int:
        """A new node."""
        node: cython.int = self.count
        if node >= self.nodes.kind.shape[0]:
            self.wrong = 1
            return 0
        self.nodes.kind[node] = cython.cast(cython.uchar, kind)
        self.nodes.left[node] = left
        self.nodes.right[node] = right
        self.nodes.extra[node] = extra
        self.count += 1
        return node

    def add(self, node: cython.int) -> cython.int:
        """Number a node among the substitutions."""
        if self.substitution_count >= self.substitutions.shape[0]:
            self.wrong = 1
        else:
            self.substitutions[self.substitution_count] = node
            self.substitution_count += 1
        return node

    def number(self) -> cython.int:
        """Read a decimal number."""
        value: cython.int = 0
        digits: cython.int = 0
        one: cython.int = self.peek(0)
        while one >= ord("0") and one <= ord("9") and value < MAX_NUMBER:
            value = value * 10 + one - ord("0")
            digits += 1
            self.at += 1
            one = self.peek(0)
        if not digits or value >= MAX_NUMBER:
            self.wrong = 1
        return value

    def compact_number(self) -> cython.int:
        """Read a number with an underscore at its end; without digits it is 0, else one more."""
        value: cython.int = 0
        if self.peek(0) != ord("_"):
            value = self.number() + 1
        self.need(ord("_"))
        return value

    def encoding(self) -> cython.int:
        """<encoding>: a name; of a function also its type."""
        outer: cython.int = self.arguments
        result: cython.int = NOTHING
        qualifiers: cython.int
        own: cython.int
        node: cython.int
        self.arguments = NOTHING
        node = self.name()
        qualifiers = self.qualifiers
        if not self.wrong and self.at < self.end and self.peek(0) != ord("E"):
            own = node
            while self.nodes.kind[own] == LOCAL:
                own = self.nodes.right[own]
            if self.nodes.kind[own] == TEMPLATE:
                self.arguments = self.nodes.right[own]
                if not self.is_special(self.nodes.left[own]):
                    result = self.type()
            own = self.arguments
            node = self.make(ENCODING, node, self.make(FUNCTION, result, self.parameters(), qualifiers), own)
        elif qualifiers:
            self.wrong = 1
        self.arguments = outer
        return node

    def is_special(self, node: cython.int) -> cython.int:
        """Whether a name is that of a function whose type has no result."""
        kind: cython.int
        while self.nodes.kind[node] == NESTED or self.nodes.kind[node] == LOCAL:
            node = self.nodes.right[node]
        kind = self.nodes.kind[node]
        return kind == CONSTRUCTOR or kind == DESTRUCTOR or kind == CONVERSION

    def parameters(self) -> cython.int:
        """The types of parameters, up to an E or the end: the first item; none for void."""
        first: cython.int = NOTHING
        last: cython.int = NOTHING
        item: cython.int
        one: cython.int = self.peek(0)
        two: cython.int = self.peek(1)
        if one == ord("v"):
            if two == 0 or two == ord("E") or ((two == ord("R") or two == ord("O")) and self.peek(2) == ord("E")):
                self.at += 1
                return NOTHING
        while not self.wrong and one and one != ord("E"):
            if (one == ord("R") or one == ord("O")) and self.peek(1) == ord("E"):
                break
            item = self.make(ITEM, self.type(), NOTHING, 0)
            if first < 0:
                first = item
            else:
                self.nodes.right[last] = item
            last = item
            one = self.peek(0)
        if first < 0:
            self.wrong = 1
        return first

    def name(self) -> cython.int:
        """<name>."""
        one: cython.int = self.peek(0)
        node: cython.int
        is_new: cython.int = 1
        if one == ord("N"):
            return self.nested()
        if one == ord("Z"):
            return self.local()
        if one == ord("S") and self.peek(1) == ord("t"):
            node = self.substitution(0)
            node = self.make(NESTED, node, self.unqualified(), 0)
        elif one == ord("S"):
            node = self.substitution(0)
            is_new = 0
        else:
            node = self.unqualified()
        if self.peek(0) == ord("I"):
            if is_new:
                self.add(node)
            node = self.make(TEMPLATE, node, self.template_arguments(), 0)
        self.qualifiers = 0
        return node

    def nested(self) -> cython.int:
        """<nested-name>."""
        node: cython.int = NOTHING
        part: cython.int
        one: cython.int
        qualifiers: cython.int
        self.at += 1
        qualifiers = self.cv_qualifiers()
        if self.eat(ord("R")):
            qualifiers |= IS_REFERENCE
        elif self.eat(ord("O")):
            qualifiers |= IS_RVALUE
        one = self.peek(0)
        while not self.wrong and one != ord("E"):
            if one == ord("I") and node >= 0:
                node = self.make(TEMPLATE, node, self.template_arguments(), 0)
            else:
                if (one == ord("C") or one == ord("D")) and node >= 0 and not self.is_class(node):
                    self.wrong = 1
                part = self.prefix(one, node >= 0)
                node = part if node < 0 else self.make(NESTED, node, part, 0)
            if one != ord("S") and self.peek(0) != ord("E"):
                self.add(node)
            one = self.peek(0)
        self.need(ord("E"))
        if node < 0:
            self.wrong = 1
            return 0
        self.qualifiers = qualifiers
        return node

    def is_class(self, node: cython.int) -> cython.int:
        """Whether the last part of a name is an identifier, which a constructor has, too."""
        kind: cython.int = self.nodes.kind[node]
        while kind == NESTED or kind == TEMPLATE or kind == TAGGED:
            node = self.nodes.right[node] if kind == NESTED else self.nodes.left[node]
            kind = self.nodes.kind[node]
        return kind == NAME or kind == STANDARD

    def prefix(self, one: cython.int, is_inner: cython.int) -> cython.int:
        """A part of a nested name that begins with this character, and is no argument of a template."""
        node: cython.int
        if one == ord("S") and not is_inner:
            node = self.substitution(1)
            if self.nodes.kind[node] >= POINTER and self.nodes.kind[node] != PARAMETER:
                self.wrong = 1
            return node
        if one == ord("T") and not is_inner:
            return self.parameter()
        return self.unqualified()

    def cv_qualifiers(self) -> cython.int:
        """<CV-qualifiers>."""
        found: cython.int = 0
        if self.eat(ord("r")):
            found |= IS_RESTRICT
        if self.eat(ord("V")):
            found |= IS_VOLATILE
        if self.eat(ord("K")):
            found |= IS_CONST
        if self.peek(0) == ord("r") or self.peek(0) == ord("V") or self.peek(0) == ord("K"):
            self.wrong = 1
        return found

    def local(self) -> cython.int:
        """<local-name>, of an entity that is not a string."""
        function: cython.int
        node: cython.int
        self.at += 1
        self.enter()
        if self.wrong:
            return 0
        function = self.encoding()
        self.need(ord("E"))
        if self.peek(0) == ord("s") or self.peek(0) == ord("d"):
            self.wrong = 1
        if self.wrong:
            return 0
        node = self.name()
        if self.nodes.kind[node] != LAMBDA and self.nodes.kind[node] != UNNAMED:
            self.discriminator()
        self.depth -= 1
        return self.make(LOCAL, function, node, 0)

    def discriminator(self) -> None:
        """<discriminator>, if there is one."""
        if not self.eat(ord("_")):
            return
        if self.eat(ord("_")):
            self.number()
            self.need(ord("_"))
        elif self.peek(0) < ord("0") or self.peek(0) > ord("9"):
            self.wrong = 1
        else:
            self.at += 1
            # A larger one has two underscores.
            if self.peek(0) >= ord("0") and self.peek(0) <= ord("9"):
                self.wrong = 1

    def enter(self) -> None:
        """One level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.wrong = 1

    def unqualified(self) -> cython.int:
        """<unqualified-name>, with its tags."""
        one: cython.int = self.peek(0)
        node: cython.int = 0
        identifier: cython.int
        if one >= ord("0") and one <= ord("9"):
            node = self.source_name()
        elif one == ord("L"):
            self.at += 1
            node = self.source_name()
            self.discriminator()
        elif one == ord("C") or one == ord("D"):
            node = self.structor(one)
        elif one == ord("U"):
            node = self.unnamed()
        else:
            node = self.operator()
        while not self.wrong and self.eat(ord("B")):
            identifier = self.identifier
            node = self.make(TAGGED, node, self.source_name(), 0)
            self.identifier = identifier
        return node

    def source_name(self) -> cython.int:
        """<source-name>."""
        size: cython.int = self.number()
        node: cython.int
        if self.wrong or size == 0 or size > self.end - self.at:
            self.wrong = 1
            return 0
        node = self.make(NAME, cython.cast(cython.int, self.at - self.start), size, self.is_unnamed_namespace(size))
        self.at += size
        self.identifier = node
        return node

    def is_unnamed_namespace(self, size: cython.int) -> cython.int:
        """Whether the identifier of this size is that of an unnamed namespace."""
        one: cython.int
        if size < UNNAMED_NAMESPACE or self.peek(0) != ord("_") or self.peek(9) != ord("N"):
            return 0
        one = self.peek(8)
        return (
            (one == ord("_") or one == ord(".") or one == ord("$"))
            and self.peek(1) == ord("G")
            and self.peek(2) == ord("L")
            and self.peek(3) == ord("O")
            and self.peek(4) == ord("B")
            and self.peek(5) == ord("A")
            and self.peek(6) == ord("L")
            and self.peek(7) == ord("_")
        )

    def structor(self, kind: cython.int) -> cython.int:
        """<ctor-dtor-name>. Its class is the last identifier that was read, as GNU demanglers take it."""
        is_inherited: cython.int = kind == ord("C") and self.peek(1) == ord("I")
        identifier: cython.int
        one: cython.int
        self.at += 1 + is_inherited
        one = self.peek(0)
        self.at += 1
        if one < ord("0") or one > ord("5") or one == (ord("0") if kind == ord("C") else ord("3")):
            self.wrong = 1
        if is_inherited:
            identifier = self.identifier
            self.type()
            if self.is_whole:
                self.identifier = identifier
        if self.identifier < 0:
            self.wrong = 1
        return self.make(CONSTRUCTOR if kind == ord("C") else DESTRUCTOR, self.identifier, NOTHING, 0)

    def unnamed(self) -> cython.int:
        """<unnamed-type-name>."""
        node: cython.int = 0
        first: cython.int
        one: cython.int = self.peek(1)
        self.at += 2
        if one == ord("t"):
            return self.make(UNNAMED, NOTHING, self.compact_number(), 0)
        if one != ord("l"):
            self.wrong = 1
            return node
        self.lambdas += 1
        first = self.parameters()
        self.lambdas -= 1
        self.need(ord("E"))
        return self.make(LAMBDA, first, self.compact_number(), 0)

    def operator(self) -> cython.int:
        """<operator-name>."""
        one: cython.int = self.peek(0)
        two: cython.int = self.peek(1)
        word: cython.int
        if one < ord("a") or one > ord("z") or two == 0 or two >= LETTERS:
            self.wrong = 1
            return 0
        self.at += 2
        if one == ord("c") and two == ord("v"):
            return self.make(CONVERSION, self.type(), NOTHING, 0)
        word = self.pairs[one * LETTERS + two]
        if word == 0:
            self.wrong = 1
        return self.make(WORD, word, NOTHING, 0)

    def substitution(self, is_prefix: cython.int) -> cython.int:
        """<substitution>."""
        one: cython.int = self.peek(1)
        word: cython.int
        self.at += 1
        if one == ord("_") or (one >= ord("0") and one <= ord("9")) or (one >= ord("A") and one <= ord("Z")):
            return self.numbered()
        self.at += 1
        word = self.pairs[ord("S") * LETTERS + one] if one < LETTERS else 0
        if word == 0 or self.peek(0) == ord("B"):
            self.wrong = 1
            return 0
        if one == ord("t"):
            return self.make(WORD, word, NOTHING, 0)
        self.identifier = self.make(WORD, word + CLASS, NOTHING, 0)
        if self.is_whole or (is_prefix and (self.peek(0) == ord("C") or self.peek(0) == ord("D"))):
            word += WHOLE
        return self.make(STANDARD, word, NOTHING, 0)

    def numbered(self) -> cython.int:
        """The node with a number in base 36, after the S."""
        value: cython.int = 0
        one: cython.int = self.peek(0)
        if one != ord("_"):
            while one != ord("_") and value < MAX_NUMBER and not self.wrong:
                if one >= ord("0") and one <= ord("9"):
                    value = value * 36 + one - ord("0")
                elif one >= ord("A") and one <= ord("Z"):
                    value = value * 36 + one - ord("A") + 10
                else:
                    self.wrong = 1
                self.at += 1
                one = self.peek(0)
            value += 1
        self.need(ord("_"))
        if self.wrong or value >= self.substitution_count:
            self.wrong = 1
            return 0
        return self.substitutions[value]

    def type(self) -> cython.int:
        """<type>."""
        one: cython.int = self.peek(0)
        node: cython.int = 0
        self.enter()
        if self.wrong:
            return 0
        if one == ord("r") or one == ord("V") or one == ord("K"):
            node = self.add(self.qualified())
        elif one >= ord("a") and one <= ord("z"):
            node = self.builtin(one)
        elif one == ord("S"):
            node = self.substituted()
        elif one == ord("T"):
            node = self.add(self.parameter())
            if self.peek(0) == ord("I"):
                node = self.add(self.make(TEMPLATE, node, self.template_arguments(), 0))
        elif one == ord("N") or one == ord("Z") or (one >= ord("0") and one <= ord("9")):
            node = self.class_name()
        elif one == ord("D"):
            node = self.two_letters()
        else:
            node = self.add(self.compound(one))
        self.depth -= 1
        return node

    def qualified(self) -> cython.int:
        """A type with cv-qualifiers; those of a function are its own."""
        qualifiers: cython.int = self.cv_qualifiers()
        node: cython.int
        if self.peek(0) == ord("F"):
            node = self.function()
            self.nodes.extra[node] |= qualifiers
            return node
        node = self.type()
        if qualifiers & IS_CONST:
            node = self.make(CONST, node, NOTHING, 0)
        if qualifiers & IS_VOLATILE:
            node = self.make(VOLATILE, node, NOTHING, 0)
        if qualifiers & IS_RESTRICT:
            node = self.make(RESTRICT, node, NOTHING, 0)
        return node

    def builtin(self, one: cython.int) -> cython.int:
        """<builtin-type> of one letter."""
        word: cython.int = self.builtins[one]
        self.at += 1
        if word == 0:
            self.wrong = 1
        return self.make(BUILTIN, word, one, one >= ord("d") and one <= ord("g"))

    def two_letters(self) -> cython.int:
        """<builtin-type> of two letters, a pack expansion, or the type of an expression."""
        node: cython.int
        two: cython.int = self.peek(1)
        word: cython.int
        self.at += 2
        if two == ord("p"):
            return self.add(self.make(EXPANSION, self.type(), NOTHING, 0))
        if two == ord("T") or two == ord("t"):
            # The library keeps most such names as they are.
            if self.is_whole:
                self.wrong = 1
            node = self.make(DECLTYPE, self.expression(), NOTHING, 0)
            self.need(ord("E"))
            return self.add(node)
        word = self.pairs[ord("D") * LETTERS + two] if two < LETTERS else 0
        if word == 0:
            self.wrong = 1
        return self.make(BUILTIN, word, NOTHING, 0)

    def substituted(self) -> cython.int:
        """A type that begins with a substitution: a new one only if anything follows that."""
        one: cython.int = self.peek(1)
        node: cython.int
        if one == ord("_") or (one >= ord("0") and one <= ord("9")) or (one >= ord("A") and one <= ord("Z")):
            node = self.substitution(0)
            if self.peek(0) == ord("I"):
                node = self.add(self.make(TEMPLATE, node, self.template_arguments(), 0))
            return node
        return self.class_name()

    def class_name(self) -> cython.int:
        """<class-enum-type>: a new substitution, unless it is an abbreviation."""
        node: cython.int = self.name()
        # They are those of a function.
        if self.qualifiers:
            self.wrong = 1
        return node if self.nodes.kind[node] == STANDARD else self.add(node)

    def compound(self, one: cython.int) -> cython.int:
        """A pointer, reference, function, array, or pointer to a member."""
        node: cython.int
        if one == ord("F"):
            return self.function()
        self.at += 1
        if one == ord("P"):
            return self.make(POINTER, self.type(), NOTHING, 0)
        if one == ord("R"):
            return self.make(REFERENCE, self.type(), NOTHING, 0)
        if one == ord("O"):
            return self.make(RVALUE_REFERENCE, self.type(), NOTHING, 0)
        if one == ord("M"):
            node = self.type()
            return self.make(MEMBER, node, self.type(), 0)
        if one != ord("A"):
            self.wrong = 1
            return 0
        return self.array()

    def function(self) -> cython.int:
        """<function-type>."""
        result: cython.int
        first: cython.int
        qualifiers: cython.int = 0
        self.at += 1
        self.eat(ord("Y"))
        result = self.type()
        first = self.parameters()
        if self.eat(ord("R")):
            qualifiers = IS_REFERENCE
        elif self.eat(ord("O")):
            qualifiers = IS_RVALUE
        self.need(ord("E"))
        return self.make(FUNCTION, result, first, qualifiers)

    def array(self) -> cython.int:
        """<array-type> with a number, or without any, after the A."""
        first: cython.longlong = self.at
        size: cython.int = NOTHING
        if self.peek(0) != ord("_"):
            self.number()
            size = self.part(first)
        self.need(ord("_"))
        return self.make(ARRAY, self.type(), size, 0)

    def part(self, first: cython.longlong) -> cython.int:
        """The characters from `first` up to here, as they are."""
        offset: cython.int = cython.cast(cython.int, first - self.start)
        return self.make(NAME, offset, cython.cast(cython.int, self.at - first), 0)

    def parameter(self) -> cython.int:
        """<template-param>: of the template that is known here; in a lambda, it may be a parameter of that."""
        self.at += 1
        if self.arguments < 0 and not self.lambdas:
            self.wrong = 1
        return self.make(PARAMETER, NOTHING, self.compact_number(), self.arguments)

    def template_arguments(self) -> cython.int:
        """<template-args>, or a pack of them."""
        identifier: cython.int = self.identifier
        last: cython.int = NOTHING
        node: cython.int = self.make(ARGUMENTS, NOTHING, NOTHING, 0)
        item: cython.int
        self.at += 1
        self.enter()
        while not self.wrong and not self.eat(ord("E")):
            item = self.make(ITEM, self.template_argument(), NOTHING, 0)
            if last < 0:
                self.nodes.left[node] = item
            else:
                self.nodes.right[last] = item
            last = item
        self.depth -= 1
        self.identifier = identifier
        return node

    def template_argument(self) -> cython.int:
        """<template-arg>."""
        one: cython.int = self.peek(0)
        node: cython.int
        if one == ord("L"):
            return self.literal()
        if one == ord("J") or one == ord("I"):
            return self.template_arguments()
        if one == ord("X"):
            self.at += 1
            node = self.expression()
            self.need(ord("E"))
            return node
        return self.type()

    def expression(self) -> cython.int:
        """<expression>: one of logic, with names and numbers."""
        one: cython.int = self.peek(0)
        two: cython.int = self.peek(1)
        node: cython.int = 0
        self.enter()
        if self.wrong:
            return 0
        if one == ord("L"):
            node = self.literal()
        elif one == ord("T"):
            node = self.parameter()
        elif one == ord("s") and two == ord("r"):
            self.at += 2
            node = self.type()
            node = self.make(NESTED, node, self.named(), 0)
        elif one == ord("s") and two == ord("p"):
            self.at += 2
            node = self.make(EXPANSION, self.expression(), NOTHING, 0)
        elif one == ord("f") and two == ord("p"):
            self.at += 2
            node = self.make(ARGUMENT, NOTHING, self.compact_number(), 0)
        elif one == ord("d") and two == ord("t"):
            self.at += 2
            node = self.expression()
            node = self.make(BINARY, self.pairs[one * LETTERS + two], node, self.named())
        elif one == ord("c") and two == ord("l"):
            node = self.call()
        elif one >= ord("0") and one <= ord("9"):
            node = self.named()
        else:
            node = self.operation(one, two)
        self.depth -= 1
        return node

    def call(self) -> cython.int:
        """A call in an expression."""
        function: cython.int
        first: cython.int = NOTHING
        last: cython.int = NOTHING
        item: cython.int
        self.at += 2
        function = self.expression()
        # Demanglers do not agree on how much of its type is written.
        if self.nodes.kind[function] == ENCODING:
            self.wrong = 1
        while not self.wrong and not self.eat(ord("E")):
            item = self.make(ITEM, self.expression(), NOTHING, 0)
            if last < 0:
                first = item
            else:
                self.nodes.right[last] = item
            last = item
        return self.make(CALL, function, first, 0)

    def named(self) -> cython.int:
        """A name in an expression, with its template arguments."""
        node: cython.int = self.unqualified()
        if self.peek(0) == ord("I"):
            node = self.make(TEMPLATE, node, self.template_arguments(), 0)
        return node

    def operation(self, one: cython.int, two: cython.int) -> cython.int:
        """A unary or binary operator, and its operands."""
        node: cython.int = NOTHING
        word: cython.int
        is_unary: cython.int = (one == ord("n") and two == ord("t")) or (one == ord("a") and two == ord("d"))
        if not (
            is_unary
            or (one == ord("a") and two == ord("a"))
            or (one == ord("o") and two == ord("o"))
            or (one == ord("e") and two == ord("q"))
            or (one == ord("n") and two == ord("e"))
            or ((one == ord("l") or one == ord("g")) and (two == ord("t") or two == ord("e")))
        ):
            self.wrong = 1
            return 0
        word = self.pairs[one * LETTERS + two]
        self.at += 2
        if not is_unary:
            node = self.expression()
        return self.make(UNARY if is_unary else BINARY, word, node, self.expression())

    def literal(self) -> cython.int:
        """<expr-primary>: a number, or the name of a function or variable."""
        node: cython.int
        is_negative: cython.int
        first: cython.longlong
        one: cython.int
        self.at += 1
        one = self.peek(0)
        if one == ord("_"):
            self.at += 1
            self.need(ord("Z"))
            node = self.encoding()
        else:
            node = self.type()
            # Floating-point numbers are hexadecimal.
            if one == ord("Z") or (self.nodes.kind[node] == BUILTIN and self.nodes.extra[node]):
                self.wrong = 1
            is_negative = self.eat(ord("n"))
            first = self.at
            while self.peek(0) >= ord("0") and self.peek(0) <= ord("9"):
                self.at += 1
            if self.at == first:
                self.wrong = 1
            node = self.make(LITERAL, node, self.part(first), is_negative)
        self.need(ord("E"))
        return node
