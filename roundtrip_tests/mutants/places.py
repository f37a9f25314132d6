"""The mutants of a module: every place that an operator can change, in the order of the source.

Strategy: one walk over the syntax tree. Left out is what no test of behaviour can notice: docstrings, other text but
tables of words, annotations, decorators, imports, blocks for type checkers, assertions (they are for our own faults),
and what errors say.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache

from .operators import DEFAULTS, EVERYWHERE, IN_OPTIONAL, IN_TABLES, Operator
from .project import Module

NOT_WALKED = (ast.Import, ast.ImportFrom, ast.Assert, ast.JoinedStr, ast.Global, ast.Nonlocal)
# Texts in their tables are data: register names, patterns of instructions.
WORD_TABLES = ("converters/arch/",)
MAX_SHOWN = 120


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change: `node` replaces `owner.field`, or its item `index`.

    `line` to `last_line` are the lines that run if the changed place does. `is_at_import`: it is outside of functions.
    """

    module: Module
    operator: str
    function: str
    line: int
    last_line: int
    before: str
    after: str
    ordinal: int
    is_at_import: bool
    owner: ast.AST
    field: str
    index: int | None
    node: ast.AST

    @property
    def key(self) -> str:
        """What the mutant is called: the same as long as its function has the same text there."""
        number = f" #{self.ordinal + 1}" if self.ordinal else ""
        return f"{self.module.path}: {self.function}: {self.operator}: {self.before} -> {self.after}{number}"

    def apply(self) -> None:
        """Change the tree."""
        if self.index is None:
            setattr(self.owner, self.field, self.node)
        else:
            getattr(self.owner, self.field)[self.index] = self.node

    def rank(self, seed: int) -> float:
        """A random number from 0 to 1 that depends on the seed and the key alone: other changes do not move it."""
        digest = hashlib.sha256(f"{seed} {self.key}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") + 1) / (1 << 64)


@dataclass(frozen=True)
class Context:
    """Where the walk is."""

    function: str = ""
    statement: ast.stmt | None = None
    is_table: bool = True
    has_words: bool = False
    is_optional: bool = False

    @property
    def operators(self) -> dict[str, Operator]:
        found = dict(EVERYWHERE)
        if self.is_table:
            found["row"] = IN_TABLES["row"]
        if self.is_table and self.has_words:
            found["word"] = IN_TABLES["word"]
        if self.is_optional:
            found |= IN_OPTIONAL
        return found

    def within(self, name: str, **changes: object) -> Context:
        """Inside a function or class."""
        function = f"{self.function}.{name}" if self.function else name
        return Context(function, self.statement, **changes)  # type: ignore[arg-type]


@cache
def tree_of(module: Module) -> ast.Module:
    """The module's syntax tree: one for all its mutants."""
    return ast.parse(module.source)


@cache
def mutants_of(module: Module) -> tuple[Mutant, ...]:
    """Every mutant of a module."""
    walk = Walk(module)
    has_words = module.path.startswith(WORD_TABLES)
    walk.body(tree_of(module), "body", Context(has_words=has_words))
    return tuple(walk.found)


class Walk:
    """The walk over one module, and what it found."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: list[Mutant] = []
        self._count: Counter[tuple[str, ...]] = Counter()

    def body(self, owner: ast.AST, name: str, context: Context) -> None:
        """Statements, one after the other."""
        for index, statement in enumerate(getattr(owner, name)):
            if not _is_for_readers(statement):
                self._node(owner, name, index, statement, Context(
                    context.function, statement, context.is_table, context.has_words, context.is_optional
                ))  # fmt: skip

    def _node(self, owner: ast.AST, name: str, index: int | None, node: ast.AST, context: Context) -> None:
        if isinstance(node, NOT_WALKED):
            return
        self._change(owner, name, index, node, context, context.operators)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._defaults(node, context.within(node.name))
                inside = context.within(node.name, is_table=False, is_optional=_may_return_none(node))
                self.body(node, "body", inside)
            case ast.Lambda():
                self._defaults(node, context)
                self._node(node, "body", None, node.body, context)
            case ast.ClassDef():
                self.body(node, "body", context.within(node.name, has_words=context.has_words))
            case ast.Raise():
                pass
            case ast.AnnAssign():
                if node.value is not None:
                    self._node(node, "value", None, node.value, context)
            case _:
                self._children(node, context)

    def _children(self, node: ast.AST, context: Context) -> None:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.body(node, name, context)
            elif isinstance(value, list):
                for index, one in enumerate(value):
                    if isinstance(one, ast.AST):
                        self._node(node, name, index, one, context)
            elif isinstance(value, ast.AST):
                self._node(node, name, None, value, context)

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, context: Context) -> None:
        for name in ("defaults", "kw_defaults"):
            for index, one in enumerate(getattr(node.args, name)):
                if one is not None:
                    for operator in DEFAULTS:
                        self._change(node.args, name, index, one, context, {"default": EVERYWHERE[operator]})

    def _change(
        self,
        owner: ast.AST,
        name: str,
        index: int | None,
        node: ast.AST,
        context: Context,
        operators: dict[str, Operator],
    ) -> None:
        statement = context.statement
        assert statement is not None
        for operator, change in operators.items():
            for other in change(node):
                _place(other, node)
                before, after = _shown(node, other)
                same = (context.function, operator, before, after)
                self.found.append(Mutant(
                    self.module, operator, context.function or "<module>", *_lines(statement, node), before, after,
                    self._count[same], context.is_table, owner, name, index, other,
                ))  # fmt: skip
                self._count[same] += 1


def _lines(statement: ast.stmt, node: ast.AST) -> tuple[int, int]:
    """The lines that run if the node does: its own, or those of its statement without what is inside of that."""
    first = getattr(node, "lineno", statement.lineno)
    if isinstance(node, ast.If | ast.While):
        return first, node.test.end_lineno or first
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        return first, first
    return first, getattr(node, "end_lineno", None) or first


def _place(new: ast.AST, old: ast.AST) -> None:
    """Give the new nodes the lines of the old one, so that functions keep theirs."""
    if hasattr(old, "lineno") and "lineno" in new._attributes:
        ast.copy_location(new, old)
        ast.fix_missing_locations(new)
    else:
        inner = next((one for one in ast.walk(old) if hasattr(one, "lineno")), None)
        for one in ast.walk(new):
            if inner is not None and "lineno" in one._attributes and not hasattr(one, "lineno"):
                ast.copy_location(one, inner)


def _shown(old: ast.AST, new: ast.AST) -> tuple[str, str]:
    """Both as source, only the parts that differ where they are long."""
    before, after = _text(old), _text(new)
    if max(len(before), len(after)) <= MAX_SHOWN:
        return before, after
    start = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    start = max(0, start - MAX_SHOWN // 3)
    more = "..." if start else ""
    return more + before[start : start + MAX_SHOWN], more + after[start : start + MAX_SHOWN]


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    if isinstance(node, ast.ClassDef):
        return "; ".join(ast.unparse(one) for one in node.body if isinstance(one, ast.AnnAssign))
    return " ".join(ast.unparse(node).split())


def _is_for_readers(statement: ast.stmt) -> bool:
    """A docstring, a list of names, or a block for type checkers or for kernels that are not compiled."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=test):
            return ast.unparse(test) in {"TYPE_CHECKING", "not TYPE_CHECKING", "not cython.compiled", "cython.compiled"}
    return False


def _may_return_none(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.returns is not None and "None" in ast.unparse(node.returns) and ast.unparse(node.returns) != "None"
