"""C++'s mangled names (Itanium C++ ABI, 5.1) as text, of the usual forms.

Strategy: the codes of operators and types, and their text, are a table here; a kernel reads names and writes text, as
GNU's demanglers do. The kernel is for whole files: uncompiled, it takes a thousand times as long.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import starts_of
from ..kernels import engine, views
from ..kernels.breakpad.protocol import NameWord
from ..strings import NO_STRINGS, Strings, concatenate, parts_of
from ..threads import in_threads
from .kernel_texts import texts_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .kernel_texts import I64, U8

_WORDS = {
    NameWord.COLONS: "::",
    NameWord.COMMA: ", ",
    NameWord.UNNAMED_NAMESPACE: "(anonymous namespace)",
    NameWord.OPERATOR: "operator ",
    NameWord.ABI_TAG: "[abi:",
    NameWord.LAMBDA: "{lambda(",
    NameWord.LAMBDA_NUMBER: ")#",
    NameWord.UNNAMED_TYPE: "{unnamed type#",
    NameWord.AUTO: "auto:",
    NameWord.TRUE: "true",
    NameWord.FALSE: "false",
    NameWord.CONST: " const",
    NameWord.VOLATILE: " volatile",
    NameWord.RESTRICT: " restrict",
    NameWord.LVALUE: " &",
    NameWord.RVALUE: " &&",
    NameWord.DECLTYPE: "decltype (",
    NameWord.ARGUMENT: "{parm#",
}
# <operator-name>
_OPERATORS = {
    "nw": " new",
    "na": " new[]",
    "dl": " delete",
    "da": " delete[]",
    "aw": " co_await",
    "ps": "+",
    "ng": "-",
    "ad": "&",
    "de": "*",
    "co": "~",
    "pl": "+",
    "mi": "-",
    "ml": "*",
    "dv": "/",
    "rm": "%",
    "an": "&",
    "or": "|",
    "eo": "^",
    "aS": "=",
    "pL": "+=",
    "mI": "-=",
    "mL": "*=",
    "dV": "/=",
    "rM": "%=",
    "aN": "&=",
    "oR": "|=",
    "eO": "^=",
    "ls": "<<",
    "rs": ">>",
    "lS": "<<=",
    "rS": ">>=",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "ss": "<=>",
    "nt": "!",
    "aa": "&&",
    "oo": "||",
    "pp": "++",
    "mm": "--",
    "cm": ",",
    "pm": "->*",
    "pt": "->",
    "dt": ".",
    "cl": "()",
    "ix": "[]",
    "qu": "?",
}
# <builtin-type>
_BUILTINS = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
    "Da": "auto",
    "Dc": "decltype(auto)",
    "Di": "char32_t",
    "Dn": "decltype(nullptr)",
    "Ds": "char16_t",
    "Du": "char8_t",
}
_CHARACTERS = "char, std::char_traits<char>"
# <substitution>: the abbreviation, the whole class, and the name of its constructor.
_STANDARD = {
    "St": ("std",),
    "Sa": ("std::allocator", "std::allocator", "allocator"),
    "Sb": ("std::basic_string", "std::basic_string", "basic_string"),
    "Ss": ("std::string", f"std::basic_string<{_CHARACTERS}, std::allocator<char> >", "basic_string"),
    "Si": ("std::istream", f"std::basic_istream<{_CHARACTERS} >", "basic_istream"),
    "So": ("std::ostream", f"std::basic_ostream<{_CHARACTERS} >", "basic_ostream"),
    "Sd": ("std::iostream", f"std::basic_iostream<{_CHARACTERS} >", "basic_iostream"),
}
LETTERS = 128
# Bytes of names that one thread demangles at a time.
PART = 1 << 18


@cache
def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]:
    """The words of codes of two letters and of one, 0 for none; the text of all words, and where each starts."""
    pairs, builtins = np.zeros(LETTERS * LETTERS, np.uint8), np.zeros(LETTERS, np.uint8)
    words = ["", *(_WORDS[one] for one in NameWord)]
    texts = {code: (f"operator{text}",) for code, text in _OPERATORS.items()}
    for code, text in {**texts, **{code: (text,) for code, text in _BUILTINS.items()}, **_STANDARD}.items():
        if len(code) == 1:
            builtins[ord(code)] = len(words)
        else:
            pairs[ord(code[0]) * LETTERS + ord(code[1])] = len(words)
        words += text
    data = np.frombuffer("".join(words).encode(), np.uint8)
    return pairs, builtins, data, starts_of(np.array([len(word) for word in words], np.int64))


def demangle_itanium(names: Strings, expansion: int, is_whole: bool) -> Strings:
    """The text of each name, of ASCII characters: at most `expansion` times as long, without bytes for a name of any
    other form. `is_whole`: standard classes have no short names, such as std::string."""
    parts = [names.select(part) for part in parts_of(names.size, PART)]
    return concatenate([NO_STRINGS, *in_threads(lambda part: _demangle_part(part, expansion, is_whole), parts)])


def _demangle_part(names: Strings, expansion: int, is_whole: bool) -> Strings:
    """As `demangle_itanium`."""
    pairs, builtins, words, word_start = _tables()
    # A character makes at most three nodes.
    capacity = 4 * int(names.size.max(initial=0)) + 16
    trees, texts = engine.breakpad.cplusplus_tree, engine.breakpad.cplusplus_text
    left, right, extra, substitutions = (np.empty(capacity, np.int32) for _ in range(4))
    nodes = trees.Nodes(*views(np.empty(capacity, np.uint8), left, right, extra))

    def demangle(data: U8, start: I64, out: U8, text_start: I64, first: int) -> tuple[int, int]:
        tree = trees.Tree(*views(data, pairs, builtins), nodes, *views(substitutions), int(is_whole))
        text = texts.Text(tree, *views(words, word_start, out))
        return texts.demangle(text, *views(start, text_start), first, expansion), text.size

    return texts_by(demangle, names, expansion)
