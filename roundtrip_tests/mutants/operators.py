"""The named ways to break one place of a module: each takes a node of the syntax tree and yields what takes its place.

Strategy: what only people read (names, messages, annotations) is no business of these; operators.py knows single nodes,
places.py which nodes of a module are tried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

Nodes = Iterator[ast.AST]

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
}
BUILTINS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def constants(node: ast.AST) -> Nodes:
    """A number: one more, one less, 0."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        for value in dict.fromkeys((node.value + 1, node.value - 1, 0)):
            if value != node.value:
                yield ast.Constant(value)


def flags(node: ast.AST) -> Nodes:
    """True is False."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)


def byte_strings(node: ast.AST) -> Nodes:
    """Bytes: without the last one; the first one changed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and node.value:
        yield ast.Constant(node.value[:-1])
        yield ast.Constant(bytes([node.value[0] ^ 1]) + node.value[1:])


def signs(node: ast.AST) -> Nodes:
    """A minus or a complement is dropped."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield node.operand


def comparisons(node: ast.AST) -> Nodes:
    """A comparison is another one, at one place of a chain."""
    if isinstance(node, ast.Compare):
        for index, one in enumerate(node.ops):
            for other in COMPARISONS[type(one)]:
                yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)


def arithmetic(node: ast.AST) -> Nodes:
    """An operator is its opposite; not in text that is put together, and not in unions of types."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
        if any(map(_is_text, operands)) or (isinstance(node.op, ast.BitOr) and any(map(_is_type, operands))):
            return
        for other in ARITHMETIC.get(type(node.op), ()):
            if isinstance(node, ast.BinOp):
                yield ast.BinOp(node.left, other(), node.right)
            else:
                yield ast.AugAssign(node.target, other(), node.value)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_type(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_type(node.left) or _is_type(node.right)
    name = ast.unparse(node).partition("[")[0]
    is_camel = name[:1].isupper() and not name.isupper() and "." not in name and "_" not in name
    return name in {"None", "int", "str", "bytes", "bool", "float", "tuple", "list", "dict"} or is_camel


def boolean_operators(node: ast.AST) -> Nodes:
    """`and` is `or`; one operand is dropped."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def negations(node: ast.AST) -> Nodes:
    """`not` is dropped."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def slice_bounds(node: ast.AST) -> Nodes:
    """A bound of a slice is dropped, or one more. Numbers are constants."""
    if isinstance(node, ast.Slice):
        for lower in _bounds(node.lower):
            yield ast.Slice(lower, node.upper, node.step)
        for upper in _bounds(node.upper):
            yield ast.Slice(node.lower, upper, node.step)


def _bounds(node: ast.expr | None) -> Iterator[ast.expr | None]:
    if node is not None:
        yield None
        if not isinstance(node, ast.Constant):
            yield ast.BinOp(node, ast.Add(), ast.Constant(1))


def builtins(node: ast.AST) -> Nodes:
    """`min` is `max`, `any` is `all`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
        yield ast.Call(ast.Name(BUILTINS[node.func.id], ast.Load()), node.args, node.keywords)


def conditions(node: ast.AST) -> Nodes:
    """A condition is negated, always true, or always false."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        for test in (ast.UnaryOp(ast.Not(), node.test), ast.Constant(True), ast.Constant(False)):
            # An endless loop tells nothing.
            if isinstance(node, ast.While) and isinstance(test, ast.Constant) and test.value:
                continue
            if isinstance(node, ast.IfExp):
                yield ast.IfExp(test, node.body, node.orelse)
            else:
                yield type(node)(test, node.body, node.orelse)


def filters(node: ast.AST) -> Nodes:
    """The condition of a comprehension is dropped."""
    if isinstance(node, ast.comprehension):
        for index in range(len(node.ifs)):
            rest = [*node.ifs[:index], *node.ifs[index + 1 :]]
            yield ast.comprehension(node.target, node.iter, rest, node.is_async)


def rows(node: ast.AST) -> Nodes:
    """A row of a table is dropped; two neighbours change places, or the values of two keys."""
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index in range(len(node.keys)):
            yield ast.Dict(_without(node.keys, index), _without(node.values, index))
        for index, (one, two) in enumerate(pairwise(node.values)):
            if ast.dump(one) != ast.dump(two) and node.keys[index] and node.keys[index + 1]:
                yield ast.Dict(node.keys, _swapped(node.values, index))
    if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 2:
        for index in range(len(node.elts)):
            yield _like(node, _without(node.elts, index))
        if not isinstance(node, ast.Set):
            for index, (one, two) in enumerate(pairwise(node.elts)):
                if ast.dump(one) != ast.dump(two):
                    yield _like(node, _swapped(node.elts, index))


def _like(node: ast.Tuple | ast.List | ast.Set, elements: list[ast.expr]) -> ast.AST:
    return ast.Set(elements) if isinstance(node, ast.Set) else type(node)(elements, ast.Load())


def words(node: ast.AST) -> Nodes:
    """A table that is text of several words: one is dropped; two neighbours change places."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        found = node.value.split(" ")
        for index in range(len(found)):
            yield ast.Constant(" ".join(_without(found, index)))
        for index in range(len(found) - 1):
            yield ast.Constant(" ".join(_swapped(found, index)))


def fields(node: ast.AST) -> Nodes:
    """Two neighbouring fields of a record change places."""
    if isinstance(node, ast.ClassDef):
        for index, (one, two) in enumerate(pairwise(node.body)):
            if _is_field(one) and _is_field(two):
                body = _swapped(node.body, index)
                yield ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)


def _is_field(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "wire"
    )


def raises(node: ast.AST) -> Nodes:
    """An error is not raised."""
    if isinstance(node, ast.Raise):
        yield ast.Pass()


def returns(node: ast.AST) -> Nodes:
    """What is returned is not: None in its place."""
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield ast.Return(ast.Constant(None))


def statements(node: ast.AST) -> Nodes:
    """A statement is dropped: a call, an assignment to a part of something, `+=`, `continue`, `break`."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield | ast.YieldFrom)
    is_part = isinstance(node, ast.Assign) and all(
        isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets
    )
    if is_call or is_part or isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Delete):
        yield ast.Pass()


def _without(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def _swapped(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], items[index + 1], items[index], *items[index + 2 :]]


Operator = Callable[[ast.AST], Nodes]
# Anywhere in the code.
EVERYWHERE: dict[str, Operator] = {
    "constant": constants,
    "flag": flags,
    "bytes": byte_strings,
    "sign": signs,
    "comparison": comparisons,
    "arithmetic": arithmetic,
    "boolean": boolean_operators,
    "negation": negations,
    "slice": slice_bounds,
    "builtin": builtins,
    "condition": conditions,
    "filter": filters,
    "field": fields,
    "raise": raises,
    "statement": statements,
}
# In functions that may return None: a refusal, a fault that was found, a match.
IN_OPTIONAL: dict[str, Operator] = {"return": returns}
# In tables: what modules and classes assign.
IN_TABLES: dict[str, Operator] = {"row": rows, "word": words}
# In default values of parameters.
DEFAULTS = ("constant", "flag")
NAMES = (*EVERYWHERE, *IN_OPTIONAL, *IN_TABLES, "default")
