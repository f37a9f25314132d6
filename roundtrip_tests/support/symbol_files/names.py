"""Function names as different programs print them, made comparable.

Strategy: each rule of `normalize` removes one known difference between demanglers that says nothing about the
function. `match` then compares what is left; parameter lists count only if both names have one.
"""

from __future__ import annotations

import functools
import re

# What a compiler appends to the symbol of a copy or a part: GCC's and LLVM's, as demanglers print it or as it is.
_CLONE = re.compile(
    r" ?\[clone [^]]*\]| ?\((?:\.\w+)+\)$"
    r"|(?<=[\w>)])(?:\.(?:(?:cold|part|isra|constprop|lto_priv|llvm)(?:\.\d+)?|\d+))+$"
)
_ANONYMOUS = re.compile(
    r"\(anonymous namespace\)|\{anonymous\}|<anonymous namespace>|`anonymous namespace'|_GLOBAL__N_1"
)
# A legacy Rust name ends with its hash; the same name of the later mangling has the crate's: `core[1234abcd]`.
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}(?=$|::)|(?<=\w)\[[0-9a-f]{5,16}\]")
# A legacy Rust name is also an Itanium name, and demangled as such keeps Rust's own escapes.
_RUST_ESCAPE = re.compile(r"\$(LT|GT|RF|BP|LP|RP|C|SP|u([0-9a-f]{2,4}))\$")
_RUST_CHARACTERS = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "LP": "(", "RP": ")", "C": ",", "SP": "@"}
_VERSION = re.compile(r"@{1,2}[A-Za-z]\w*[\d.]*$")  # of a symbol: `isastream@GLIBC_2.2.5`
_ABI_TAG = re.compile(r"\[abi:\w+\]")
# GCC's DWARF says `<lambda(int)>`; its demangler `{lambda(int)#1}`; LLVM's `'lambda'(int)` and `$_0`.
_LAMBDA = re.compile(r"\{lambda\(.*?\)#\d+\}|<lambda\(.*?\)>|'lambda\d*'\([^()]*\)|<lambda[^>]*>|\$_\d+|'lambda\d*'")
# Of literals: `5ul`, `(unsigned long)5`, and Rust's `5: usize`.
_TYPE_OF_LITERAL = re.compile(
    r"(?<=\d)(?:u|l|ul|ull|ll)\b|\((?:unsigned |signed )?(?:char|short|int|long|long long|unsigned)\)(?=-?\d)"
    r"|(?<=\d): ?[iu](?:8|16|32|64|128|size)\b"
)
# But one before a word, after what may end a return type, is kept.
_SPACE = re.compile(r"\s+(?=[^\w~({])|(?<=\W)(?<![>*&)\]])\s+|\s+(?=[({](?!anonymous|lambda|closure))")
# Abbreviations of the Itanium ABI, which some demanglers expand; without spaces.
_ABBREVIATIONS = {
    "std::basic_string<char,std::char_traits<char>,std::allocator<char>>": "std::string",
    "std::basic_istream<char,std::char_traits<char>>": "std::istream",
    "std::basic_ostream<char,std::char_traits<char>>": "std::ostream",
    "std::basic_iostream<char,std::char_traits<char>>": "std::iostream",
}
# An operator's own angle brackets become characters that are no brackets.
_OPERATOR = re.compile(r"\boperator(<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>)(?=[\s(<]|$)")
_NO_BRACKETS = str.maketrans("<>", "\u2039\u203a")
_QUALIFIERS = re.compile(r"(?:\s*(?:const|volatile|noexcept|&&?|\[\[.*\]\]))+$")


@functools.lru_cache(maxsize=1 << 16)
def normalize(name: str) -> str:
    """The name without differences of spelling:

    - a clone's suffix (`.cold`, `[clone .part.0]`), a symbol's version, a Rust hash and ABI tags are removed;
    - an anonymous namespace is `(anonymous)` and a lambda is `{lambda}`, whatever its number and its parameters;
    - Rust's escapes (`$LT$`, `..`) are the characters that they stand for, and `{{closure}}` has no number;
    - the angle brackets of `operator<` are no brackets; literals have no type (`5ul`, `(unsigned long)5`);
    - spaces next to punctuation are removed, and `std::string` and the like are not expanded.
    """
    name = _OPERATOR.sub(lambda one: one[0].translate(_NO_BRACKETS), name)
    name = _rust_characters(name) if "$" in name or ".." in name else name
    name = _CLONE.sub("", _VERSION.sub("", name))
    name = _RUST_HASH.sub("", name)
    name = _ANONYMOUS.sub("(anonymous)", name)
    name = _ABI_TAG.sub("", name)
    name = re.sub(r"\{\{?closure(?:#\d+|_env#\d+)?\}?\}", "{closure}", name)
    name = _LAMBDA.sub("{lambda}", name)
    name = _TYPE_OF_LITERAL.sub("", name)
    name = _SPACE.sub("", name.strip())
    for expanded, short in _ABBREVIATIONS.items():
        name = name.replace(expanded, short)
    return name


def _rust_characters(name: str) -> str:
    if not re.search(r"\$(?:LT|GT|RF|BP|LP|RP|C|SP|u[0-9a-f]{2})\$|\.\.", name):
        return name
    name = re.sub(r"(^|::)_(?=\$)", r"\1", name).replace("..", "::")
    return _RUST_ESCAPE.sub(lambda one: _RUST_CHARACTERS.get(one[1]) or chr(int(one[2], 16)), name)


@functools.lru_cache(maxsize=1 << 16)
def without_signature(name: str) -> str:
    """A normalized name without parameters, return type and the qualifiers of a member function."""
    stripped = _QUALIFIERS.sub("", name)
    if stripped.endswith(")") and (start := _opening(stripped)) > 0:
        before = stripped[:start]
        # `operator()` without a parameter list keeps its parentheses.
        name = stripped if before.endswith("operator") else before
    return _without_return_type(name)


def _opening(text: str) -> int:
    """The index of the parenthesis that the last one closes; -1 if there is none."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if not depth:
            return index
    return -1


def _without_return_type(name: str) -> str:
    """The name after its last space outside brackets, unless that space is an operator's (`operator new`)."""
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        character = name[index]
        if character in ">)}]":
            depth += 1
        elif character in "<({[":
            depth -= 1
        elif character == " " and depth == 0 and not name[:index].endswith(("operator", "operator const")):
            return name[index + 1 :]
    return name


@functools.lru_cache(maxsize=1 << 16)
def last_component(name: str) -> str:
    """What follows the last `::` outside brackets of a name without signature."""
    depth = 0
    for index in range(len(name) - 1, 0, -1):
        if name[index] in ">)}]":
            depth += 1
        elif name[index] in "<({[":
            depth -= 1
        elif depth == 0 and name[index - 1 : index + 1] == "::":
            return name[index + 1 :]
    return name


@functools.lru_cache(maxsize=1 << 16)
def without_templates(name: str) -> str:
    """The name without template arguments, which a DW_AT_name may leave out."""
    kept, depth = list[str](), 0
    for character in name:
        if character == "<":
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(character)
    return "".join(kept)


@functools.lru_cache(maxsize=1 << 18)
def match(name: str, other: str) -> bool:
    """Whether two names can be the same function's: equal but for spelling and parameters, or one of them is only the
    unqualified DW_AT_name of the other."""
    if name == other:
        return True
    first, second = normalize(name), normalize(other)
    if first == second:
        return True
    first, second = without_signature(first), without_signature(second)
    return first == second or _is_name_of(first, second) or _is_name_of(second, first)


def _is_name_of(short: str, qualified: str) -> bool:
    if last_component(short) != short:
        return False
    last = last_component(qualified)
    return short == last or (bool(short) and without_templates(short) == without_templates(last))


def is_fuller(name: str, other: str) -> bool:
    """Whether the name says more of the scopes than another that matches it."""
    return len(without_signature(normalize(name))) > len(without_signature(normalize(other)))
