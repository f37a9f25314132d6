"""What kernels of symbol files and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class TextRow(IntEnum):
    """How text that lists changes has a row: not expressible, unchanged, as a change, or as a new INIT record."""

    SKIPPED = 0
    SAME = 1
    DELTA = 2
    INIT = 3


class LineKind(IntEnum):
    """What a line of a symbol file begins with: the longer of two prefixes, the shorter, or numbers to be checked."""

    LONGER = 0
    SHORTER = 1
    ODD = 2


class FunctionWord(IntEnum):
    """What lines about functions begin with: the numbers of the first words."""

    FUNC = 0
    FUNC_M = 1
    INLINE = 2


class NameNode(IntEnum):
    """The nodes of a demangled C++ name, and their `left`, `right` and `extra`."""

    NAME = 1  # offset in the mangled name, size, and whether it is an unnamed namespace
    WORD = 2  # number of the word
    BUILTIN = 3  # number of the word, letter, whether it is a floating-point type
    STANDARD = 4  # number of the word: an abbreviated class
    NESTED = 5  # scope, name
    LOCAL = 6  # function, name
    TEMPLATE = 7  # name, ARGUMENTS
    ARGUMENTS = 8  # first ITEM; as an argument itself, a pack
    ITEM = 9  # type or argument, next ITEM
    CONSTRUCTOR = 10  # NAME or WORD of the class
    DESTRUCTOR = 11  # the same
    CONVERSION = 12  # type
    TAGGED = 13  # name, tag
    LAMBDA = 14  # first ITEM of parameters, number
    UNNAMED = 15  # -, number
    POINTER = 16  # type
    REFERENCE = 17  # type
    RVALUE_REFERENCE = 18  # type
    CONST = 19  # type
    VOLATILE = 20  # type
    RESTRICT = 21  # type
    FUNCTION = 22  # result, first ITEM of parameters, qualifiers
    ARRAY = 23  # type, NAME that is the size
    MEMBER = 24  # class, type
    PARAMETER = 25  # -, number of the template's argument, ARGUMENTS of the template
    EXPANSION = 26  # pattern
    LITERAL = 27  # type, NAME that is the number, whether it is negative
    ENCODING = 28  # name, FUNCTION, ARGUMENTS of the template
    UNARY = 29  # number of the word, -, operand
    BINARY = 30  # number of the word, operand, operand
    CALL = 31  # function, first ITEM of arguments
    DECLTYPE = 32  # expression
    ARGUMENT = 33  # -, number of the function's parameter


class NameWord(IntEnum):
    """The words of demangled C++ names that are no operators or types; 0 is none. Qualifiers are in the order of their
    nodes and bits."""

    COLONS = 1
    COMMA = 2
    UNNAMED_NAMESPACE = 3
    OPERATOR = 4
    ABI_TAG = 5
    LAMBDA = 6
    LAMBDA_NUMBER = 7
    UNNAMED_TYPE = 8
    AUTO = 9
    TRUE = 10
    FALSE = 11
    CONST = 12
    VOLATILE = 13
    RESTRICT = 14
    LVALUE = 15
    RVALUE = 16
    DECLTYPE = 17
    ARGUMENT = 18
