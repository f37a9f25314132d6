# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The trees of C++'s mangled names as text, as GNU demanglers write it.

Strategy: a declarator is around the name that it declares, so each type has a left part and a right one. Text and time
of a name are bounded: a substitution is written again wherever it is referred to.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import NameNode, NameWord

if not cython.compiled:
    from ..array_types import I64, U8, ConstI64, ConstU8
    from .cplusplus_tree import Tree

NAME = cython.declare(cython.int, int(NameNode.NAME))
WORD = cython.declare(cython.int, int(NameNode.WORD))
BUILTIN = cython.declare(cython.int, int(NameNode.BUILTIN))
STANDARD = cython.declare(cython.int, int(NameNode.STANDARD))
NESTED = cython.declare(cython.int, int(NameNode.NESTED))
LOCAL = cython.declare(cython.int, int(NameNode.LOCAL))
TEMPLATE = cython.declare(cython.int, int(NameNode.TEMPLATE))
ARGUMENTS = cython.declare(cython.int, int(NameNode.ARGUMENTS))
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

COLONS = cython.declare(cython.int, int(NameWord.COLONS))
COMMA = cython.declare(cython.int, int(NameWord.COMMA))
UNNAMED_NAMESPACE = cython.declare(cython.int, int(NameWord.UNNAMED_NAMESPACE))
OPERATOR = cython.declare(cython.int, int(NameWord.OPERATOR))
ABI_TAG = cython.declare(cython.int, int(NameWord.ABI_TAG))
LAMBDA_START = cython.declare(cython.int, int(NameWord.LAMBDA))
LAMBDA_NUMBER = cython.declare(cython.int, int(NameWord.LAMBDA_NUMBER))
UNNAMED_TYPE = cython.declare(cython.int, int(NameWord.UNNAMED_TYPE))
AUTO = cython.declare(cython.int, int(NameWord.AUTO))
DECLTYPE_START = cython.declare(cython.int, int(NameWord.DECLTYPE))
ARGUMENT_START = cython.declare(cython.int, int(NameWord.ARGUMENT))
TRUE = cython.declare(cython.int, int(NameWord.TRUE))
FALSE = cython.declare(cython.int, int(NameWord.FALSE))
# The words of qualifiers, by bit from this one on; of types, by node.
QUALIFIERS = cython.declare(cython.int, int(NameWord.CONST))
QUALIFIER_COUNT = cython.declare(cython.int, 5)

# GNU's demanglers collect this many characters before they write them.
BUFFER_SIZE = cython.declare(cython.int, 255)
OPERATOR_SIZE = cython.declare(cython.int, len("operator"))
LETTERS = cython.declare(cython.int, 128)
NOTHING = cython.declare(cython.int, -1)
MAX_DEPTH = cython.declare(cython.int, 100)
# The steps allowed for each character. A step writes a character at least; few only find that there is none to write.
STEPS = cython.declare(cython.int, 4)


@cython.final
@cython.cclass
class Text:
    """The text of trees, one after the other in `out`: `size` is written, and may not reach `limit`. Word w is `words`
    from word_start[w] up to word_start[w + 1].

    While a tree is written: `arguments` of the template that parameters refer to, and whether one of them is written
    (`in_argument`); `last`, the last character, which GNU's demanglers do not take back with the text that it is of;
    `pack`, the index of arguments in the pack that is expanded, if one is (`expands`); `steps`, those left; how many
    `lambdas` contain what is written; of GNU's buffer, the characters in it (`buffered`) and how often it was written
    (`flushes`)."""

    def __init__(self, tree: Tree, words: ConstU8, word_start: ConstI64, out: U8) -> None:
        self.tree = tree
        self.nodes = tree.nodes
        self.address = tree.pairs[ord("a") * LETTERS + ord("d")]
        self.greater = tree.pairs[ord("g") * LETTERS + ord("t")]
        self.words = words
        self.word_start = word_start
        self.out = out
        self.size = 0

    def write(self, root: cython.int, limit: cython.longlong) -> None:
        """Write a tree, at most `limit` characters; nothing if that is not possible."""
        begin: cython.longlong = self.size
        self.limit = begin + limit
        if self.limit > self.out.shape[0]:
            self.limit = self.out.shape[0]
        self.steps = STEPS * limit
        self.buffered = self.flushes = 0
        self.last = self.pack = self.expands = self.depth = self.lambdas = self.in_argument = 0
        self.arguments = NOTHING
        self.wrong = self.tree.wrong
        self.whole(root)
        if self.wrong:
            self.size = begin

    def put(self, character: cython.int) -> None:
        """Write a character."""
        if self.wrong or self.size >= self.limit:
            self.wrong = 1
            return
        self.out[self.size] = cython.cast(cython.uchar, character)
        self.grow(1)
        self.last = character

    def grow(self, size: cython.longlong) -> None:
        """Count characters, of which there is at least one. GNU's demanglers write a buffer when it is full."""
        self.size += size
        self.buffered += size
        if self.buffered > BUFFER_SIZE:
            if not self.tree.is_whole:
                self.flushes += (self.buffered - 1) // BUFFER_SIZE
            self.buffered = (self.buffered - 1) % BUFFER_SIZE + 1

    def put_word(self, word: cython.int) -> None:
        """Write a word, which has characters."""
        first: cython.longlong = self.word_start[word]
        size: cython.longlong = self.word_start[word + 1] - first
        index: cython.longlong
        if self.wrong or size > self.limit - self.size:
            self.wrong = 1
            return
        for index in range(size):
            self.out[self.size + index] = self.words[first + index]
        self.grow(size)
        self.last = self.words[first + size - 1]

    def put_operator(self, word: cython.int) -> None:
        """Write what follows `operator` in a word."""
        index: cython.longlong
        for index in range(self.word_start[word] + OPERATOR_SIZE, self.word_start[word + 1]):
            self.put(self.words[index])

    def put_name(self, node: cython.int) -> None:
        """Write characters of the mangled name."""
        first: cython.longlong = self.tree.start + self.nodes.left[node]
        size: cython.longlong = self.nodes.right[node]
        index: cython.longlong
        if self.nodes.extra[node]:
            self.put_word(UNNAMED_NAMESPACE)
            return
        if self.wrong or size > self.limit - self.size:
            self.wrong = 1
            return
        for index in range(size):
            self.out[self.size + index] = self.tree.data[first + index]
        self.grow(size)
        self.last = self.tree.data[first + size - 1]

    def put_number(self, value: cython.int) -> None:
        """Write a decimal number."""
        power: cython.int = 1
        while value // power > 9:
            power = power * 10
        while power:
            self.put(ord("0") + value // power % 10)
            power = power // 10

    def enter(self) -> cython.int:
        """One level deeper, and one step; whether that is possible."""
        self.depth += 1
        self.steps -= 1
        if self.depth > MAX_DEPTH or self.steps < 0:
            self.wrong = 1
        return not self.wrong

    def whole(self, node: cython.int) -> None:
        """Both parts."""
        self.before(node)
        self.after(node)

    def before(self, node: cython.int) -> None:
        """The left part of a type; the whole of anything else."""
        kind: cython.int
        if self.enter():
            kind = self.nodes.kind[node]
            if kind == NAME:
                self.put_name(node)
            elif kind == WORD or kind == BUILTIN or kind == STANDARD:
                self.put_word(self.nodes.left[node])
            elif kind >= POINTER:
                self.type_before(node, kind)
            else:
                self.name(node, kind)
        self.depth -= 1

    def name(self, node: cython.int, kind: cython.int) -> None:
        """A name of several parts."""
        left: cython.int = self.nodes.left[node]
        right: cython.int = self.nodes.right[node]
        if kind == NESTED:
            self.whole(left)
            self.put_word(COLONS)
            self.whole(right)
        elif kind == LOCAL:
            if self.nodes.kind[left] == ENCODING:
                self.encoding(left, 0)
            else:
                self.whole(left)
            self.put_word(COLONS)
            self.whole(right)
        elif kind == TEMPLATE:
            self.whole(left)
            self.put_arguments(right)
        elif kind == ARGUMENTS:
            self.list(left)
        elif kind == CONSTRUCTOR:
            self.whole(left)
        elif kind == DESTRUCTOR:
            self.put(ord("~"))
            self.whole(left)
        elif kind == CONVERSION:
            self.put_word(OPERATOR)
            self.whole(left)
        elif kind == TAGGED:
            self.whole(left)
            self.put_word(ABI_TAG)
            self.whole(right)
            self.put(ord("]"))
        else:
            self.unnamed(left, right, kind)

    def unnamed(self, first: cython.int, number: cython.int, kind: cython.int) -> None:
        """A lambda or a type without a name."""
        if kind == LAMBDA:
            self.put_word(LAMBDA_START)
            self.lambdas += 1
            self.list(first)
            self.lambdas -= 1
            self.put_word(LAMBDA_NUMBER)
        else:
            self.put_word(UNNAMED_TYPE)
        self.put_number(number + 1)
        self.put(ord("}"))

    def put_arguments(self, node: cython.int) -> None:
        """The arguments of a template."""
        if self.last == ord("<"):
            self.put(ord(" "))
        self.put(ord("<"))
        self.list(self.nodes.left[node])
        if self.last == ord(">"):
            self.put(ord(" "))
        self.put(ord(">"))

    def list(self, item: cython.int) -> None:
        """Items, with commas. Those after the last item with text are taken back, but not from a buffer that is written
        already."""
        kept: cython.longlong = 0
        begin: cython.longlong
        flushes: cython.longlong = -1
        is_empty: cython.int
        if item < 0:
            return
        begin = self.size
        self.whole(self.nodes.left[item])
        is_empty = self.size == begin
        item = self.nodes.right[item]
        while item >= 0 and not self.wrong:
            if self.buffered >= BUFFER_SIZE - 1 and not self.tree.is_whole:
                self.flushes += 1
                self.buffered = 0
            begin = self.size
            self.put_word(COMMA)
            if self.flushes != flushes:
                kept = begin
                flushes = self.flushes
            begin = self.size
            self.whole(self.nodes.left[item])
            if self.size > begin:
                # The library writes no comma for an item without text.
                if self.tree.is_whole and is_empty:
                    self.wrong = 1
                flushes = -1
            else:
                is_empty = 1
            item = self.nodes.right[item]
        if flushes >= 0 and not self.wrong:
            self.buffered -= self.size - kept
            self.size = kept

    def type_before(self, node: cython.int, kind: cython.int) -> None:
        """The left part of a type that has two."""
        left: cython.int = self.nodes.left[node]
        if kind == POINTER or kind == REFERENCE or kind == RVALUE_REFERENCE:
            self.indirection(node, kind)
        elif kind >= CONST and kind <= RESTRICT:
            self.qualified(left, kind)
        elif kind == FUNCTION:
            self.result(left)
        elif kind == ARRAY:
            self.before(left)
        elif kind == MEMBER:
            self.member(left, self.nodes.right[node])
        elif kind == PARAMETER:
            if self.lambdas:
                self.put_word(AUTO)
                self.put_number(self.nodes.right[node] + 1)
            else:
                self.argument(node)
        elif kind == EXPANSION:
            self.expansion(left)
        elif kind == LITERAL:
            self.literal(node)
        elif kind == ENCODING:
            self.encoding(node, 1)
        else:
            self.expression(node, kind)

    def result(self, node: cython.int) -> None:
        """The left part of the result of a function, which is neither a function nor an array."""
        if self.is_wrapped(node):
            self.wrong = 1
        self.before(node)
        if not self.has_after(node):
            self.put(ord(" "))

    def expression(self, node: cython.int, kind: cython.int) -> None:
        """An expression, or a type that it has."""
        left: cython.int = self.nodes.left[node]
        if kind == ARGUMENT:
            self.put_word(ARGUMENT_START)
            self.put_number(self.nodes.right[node] + 1)
            self.put(ord("}"))
        elif kind == DECLTYPE:
            self.put_word(DECLTYPE_START)
            self.whole(left)
            self.put(ord(")"))
        elif kind == CALL:
            self.operand(left, 0)
            self.put(ord("("))
            self.list(self.nodes.right[node])
            self.put(ord(")"))
        else:
            self.operation(node, kind)

    def operation(self, node: cython.int, kind: cython.int) -> None:
        """An operator and its operands, which have parentheses unless they are plain names."""
        word: cython.int = self.nodes.left[node]
        is_greater: cython.int = word == self.greater
        if is_greater:
            self.put(ord("("))
        if kind == BINARY:
            self.operand(self.nodes.right[node], 0)
        self.put_operator(word)
        self.operand(self.nodes.extra[node], word == self.address)
        if is_greater:
            self.put(ord(")"))

    def operand(self, node: cython.int, is_address: cython.int) -> None:
        """An operand. Of the address of a function in a scope, the type is omitted."""
        kind: cython.int = self.nodes.kind[node]
        if kind == NAME or kind == NESTED or kind == ARGUMENT:
            self.whole(node)
            return
        if is_address and kind == ENCODING and self.nodes.extra[self.nodes.right[node]] == 0:
            if self.nodes.kind[self.nodes.left[node]] == NESTED:
                self.whole(self.nodes.left[node])
                return
        self.put(ord("("))
        self.whole(node)
        self.put(ord(")"))

    def target(self, node: cython.int) -> cython.int:
        """What a parameter of a template is; of a pack, the item that is expanded. Other nodes are themselves."""
        if self.nodes.kind[node] != PARAMETER or self.lambdas:
            return node
        # A substitution from another function: the runtime may remember the arguments of that.
        if self.nodes.extra[node] != self.arguments and not self.tree.is_whole:
            self.wrong = 1
            return 0
        node = self.item(self.arguments, self.nodes.right[node])
        if node >= 0 and self.nodes.kind[node] == ARGUMENTS:
            node = self.item(node, self.pack) if self.expands else NOTHING
        if node < 0 or self.nodes.kind[node] == PARAMETER or self.nodes.kind[node] == ARGUMENTS:
            self.wrong = 1
            return 0
        return node

    def item(self, arguments: cython.int, number: cython.int) -> cython.int:
        """The argument of this number; -1 if there is none."""
        item: cython.int
        if arguments < 0:
            return NOTHING
        item = self.nodes.left[arguments]
        while item >= 0 and number:
            item = self.nodes.right[item]
            number -= 1
        return NOTHING if item < 0 else self.nodes.left[item]

    def argument(self, node: cython.int) -> None:
        """The left part of a parameter of a template. What it is has no parameters of the same template."""
        if self.in_argument:
            self.wrong = 1
        self.in_argument = 1
        self.before(self.target(node))
        self.in_argument = 0

    def is_wrapped(self, node: cython.int) -> cython.int:
        """Whether a pointer to this type has parentheses."""
        node = self.target(node)
        return self.nodes.kind[node] == FUNCTION or self.nodes.kind[node] == ARRAY

    def has_after(self, node: cython.int) -> cython.int:
        """Whether a type has a right part."""
        kind: cython.int
        node = self.target(node)
        kind = self.nodes.kind[node]
        while kind >= POINTER and kind <= MEMBER and kind != FUNCTION and kind != ARRAY and not self.wrong:
            node = self.target(self.nodes.right[node] if kind == MEMBER else self.nodes.left[node])
            kind = self.nodes.kind[node]
        return kind == FUNCTION or kind == ARRAY

    def collapsed(self, node: cython.int) -> cython.int:
        """A reference, or instead the one that it refers to."""
        inner: cython.int
        if self.lambdas or self.nodes.kind[node] == POINTER:
            return node
        inner = self.target(self.nodes.left[node])
        if self.nodes.kind[inner] == REFERENCE or self.nodes.kind[inner] == self.nodes.kind[node]:
            return inner
        return node

    def referred(self, node: cython.int) -> cython.int:
        """The type that a pointer or reference refers to."""
        inner: cython.int = self.nodes.left[node]
        found: cython.int
        if not self.lambdas and self.nodes.kind[node] == REFERENCE:
            found = self.target(inner)
            if self.nodes.kind[found] == RVALUE_REFERENCE:
                return self.nodes.left[found]
        return inner

    def indirection(self, node: cython.int, kind: cython.int) -> None:
        """The left part of a pointer or reference."""
        inner: cython.int
        node = self.collapsed(node)
        kind = self.nodes.kind[node]
        inner = self.referred(node)
        if self.nodes.kind[inner] == EXPANSION:
            self.wrong = 1
        self.before(inner)
        if self.is_wrapped(inner):
            self.parenthesis(self.nodes.kind[self.target(inner)] == ARRAY)
        if kind == POINTER:
            self.put(ord("*"))
            return
        self.put(ord("&"))
        if kind == RVALUE_REFERENCE:
            self.put(ord("&"))

    def parenthesis(self, has_space: cython.int) -> None:
        """Open a declarator."""
        if (has_space or (self.last != ord("(") and self.last != ord("*"))) and self.last != ord(" "):
            self.put(ord(" "))
        self.put(ord("("))

    def member(self, owner: cython.int, node: cython.int) -> None:
        """The left part of a pointer to a member."""
        if self.nodes.kind[owner] >= POINTER and self.nodes.kind[owner] != PARAMETER:
            self.wrong = 1
        self.before(node)
        if self.is_wrapped(node):
            self.parenthesis(1)
        if self.last != ord("("):
            self.put(ord(" "))
        self.whole(owner)
        self.put_word(COLONS)
        self.put(ord("*"))

    def qualified(self, node: cython.int, kind: cython.int) -> None:
        """The left part of a type with a cv-qualifier, which is not repeated."""
        inner: cython.int = self.target(node)
        if self.nodes.kind[inner] == kind:
            self.before(inner)
            return
        if self.nodes.kind[inner] == ARRAY or self.nodes.kind[inner] == FUNCTION or self.nodes.kind[inner] == EXPANSION:
            self.wrong = 1
            return
        while self.nodes.kind[inner] >= CONST and self.nodes.kind[inner] <= RESTRICT and not self.wrong:
            inner = self.target(self.nodes.left[inner])
            if self.nodes.kind[inner] == kind:
                self.wrong = 1
        self.before(node)
        self.put_word(QUALIFIERS + kind - CONST)

    def after(self, node: cython.int) -> None:
        """The right part of a type."""
        kind: cython.int
        inner: cython.int
        while not self.wrong:
            node = self.target(node)
            kind = self.nodes.kind[node]
            if kind == FUNCTION:
                self.signature(node)
                inner = self.nodes.left[node]
            elif kind == ARRAY:
                inner = self.dimension(node)
            elif kind >= CONST and kind <= RESTRICT:
                inner = self.nodes.left[node]
            elif kind == POINTER or kind == REFERENCE or kind == RVALUE_REFERENCE or kind == MEMBER:
                node = self.collapsed(node) if kind != MEMBER else node
                inner = self.nodes.right[node] if kind == MEMBER else self.referred(node)
                if self.is_wrapped(inner):
                    self.put(ord(")"))
            else:
                return
            node = inner

    def signature(self, node: cython.int) -> None:
        """Parameters and qualifiers of a function."""
        qualifiers: cython.int = self.nodes.extra[node]
        bit: cython.int
        if self.enter():
            self.put(ord("("))
            self.list(self.nodes.right[node])
            self.put(ord(")"))
            for bit in range(QUALIFIER_COUNT):
                if qualifiers >> bit & 1:
                    self.put_word(QUALIFIERS + bit)
        self.depth -= 1

    def dimension(self, node: cython.int) -> cython.int:
        """The sizes of an array, and of arrays directly in it; its innermost type."""
        self.put(ord(" "))
        while self.nodes.kind[node] == ARRAY and not self.wrong:
            self.put(ord("["))
            if self.nodes.right[node] >= 0:
                self.put_name(self.nodes.right[node])
            self.put(ord("]"))
            node = self.target(self.nodes.left[node])
        if self.nodes.kind[node] == FUNCTION:
            self.wrong = 1
        return node

    def encoding(self, node: cython.int, has_result: cython.int) -> None:
        """A function's name and type, or only a name."""
        function: cython.int = self.nodes.right[node]
        result: cython.int = self.nodes.left[function]
        arguments: cython.int = self.arguments
        in_argument: cython.int = self.in_argument
        if self.nodes.extra[node] >= 0:
            self.arguments = self.nodes.extra[node]
            self.in_argument = 0
        if result >= 0 and has_result:
            self.result(result)
        self.whole(self.nodes.left[node])
        self.signature(function)
        if result >= 0 and has_result:
            self.after(result)
        self.arguments = arguments
        self.in_argument = in_argument

    def expansion(self, pattern: cython.int) -> None:
        """A pattern, for each argument of the pack in it."""
        pack: cython.int
        item: cython.int
        expands: cython.int = self.expands
        if self.lambdas and self.tree.is_whole:
            self.operand(pattern, 0)
            self.put(ord("."))
            self.put(ord("."))
            self.put(ord("."))
            return
        pack = self.find_pack(pattern)
        if pack < 0 or self.lambdas:
            self.wrong = 1
            return
        item = self.nodes.left[pack]
        self.pack = 0
        self.expands = 1
        while item >= 0 and not self.wrong:
            if self.pack:
                self.put_word(COMMA)
            self.whole(pattern)
            item = self.nodes.right[item]
            if item >= 0:
                self.pack += 1
        self.expands = expands

    def find_pack(self, node: cython.int) -> cython.int:
        """The first pack that a pattern has; -1 for none."""
        found: cython.int = NOTHING
        kind: cython.int
        if node < 0:
            return NOTHING
        if self.enter():
            kind = self.nodes.kind[node]
            if kind == PARAMETER:
                found = self.item(self.arguments, self.nodes.right[node])
                if found >= 0 and self.nodes.kind[found] != ARGUMENTS:
                    found = NOTHING
            elif kind == UNARY or kind == BINARY:
                found = self.find_pack(self.nodes.right[node])
                if found < 0:
                    found = self.find_pack(self.nodes.extra[node])
            elif kind >= NESTED and kind != EXPANSION and kind != LAMBDA and kind != UNNAMED and kind != ARGUMENT:
                found = self.find_pack(self.nodes.left[node])
                if found < 0 and kind != LITERAL:
                    found = self.find_pack(self.nodes.right[node])
        self.depth -= 1
        return found

    def literal(self, node: cython.int) -> None:
        """A number: with the suffix of its type, or with the type."""
        type_node: cython.int = self.nodes.left[node]
        number: cython.int = self.nodes.right[node]
        letter: cython.int = self.nodes.right[type_node] if self.nodes.kind[type_node] == BUILTIN else 0
        digit: cython.int = self.tree.data[self.tree.start + self.nodes.left[number]]
        is_short: cython.int = self.nodes.right[number] == 1 and not self.nodes.extra[node]
        if letter == ord("b") and is_short and (digit == ord("0") or digit == ord("1")):
            self.put_word(TRUE if digit == ord("1") else FALSE)
            return
        if not (letter == ord("i") or letter == ord("j") or (letter >= ord("l") and letter <= ord("m"))):
            if letter != ord("x") and letter != ord("y"):
                self.put(ord("("))
                self.whole(type_node)
                self.put(ord(")"))
                letter = 0
        if self.nodes.extra[node]:
            self.put(ord("-"))
        self.put_name(number)
        if letter == ord("j") or letter == ord("m") or letter == ord("y"):
            self.put(ord("u"))
        if letter == ord("l") or letter == ord("m") or letter == ord("x") or letter == ord("y"):
            self.put(ord("l"))
        if letter == ord("x") or letter == ord("y"):
            self.put(ord("l"))


@cython.ccall
@cython.exceptval(-1, check=False)
def demangle(
    text: Text, start: ConstI64, text_start: I64, first: cython.longlong, expansion: cython.longlong
) -> cython.longlong:
    """Demangle names from `first` on until the space of `out` may not be enough; return how many are done. Name i is
    from start[i] up to start[i + 1], its text from text_start[i] up to text_start[i + 1], but from 0 for `first`: at
    most `expansion` times as long, and without characters if it is left to others."""
    index: cython.longlong
    size: cython.longlong
    with cython.nogil:
        for index in range(first, start.shape[0] - 1):
            size = start[index + 1] - start[index]
            if expansion * size > text.out.shape[0] - text.size:
                return index
            if size > 2:
                text.write(text.tree.read(start[index], start[index + 1]), expansion * size)
            text_start[index + 1] = text.size
    return start.shape[0] - 1
