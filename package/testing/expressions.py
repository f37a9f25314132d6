"""DWARF expressions that a consumer of call frame information can evaluate."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from ..converters.arch.table import architecture_named, check_architecture
from ..corpus.frames.expressions import DwarfExpression, draw_expression
from ..schemas.arguments import check_byte_order, check_size, checked, optional
from ..schemas.section import ByteOrder
from .from_choices import by_hypothesis


@checked(arch=check_architecture, byte_order=optional(check_byte_order), initial_depth=check_size)
@st.composite
def expressions(
    draw: DrawFn, arch: str = "x86_64", byte_order: ByteOrder | None = None, initial_depth: int = 0
) -> DwarfExpression:
    """DWARF expressions of up to a dozen operations. `byte_order` None is the default of the architecture."""
    architecture = architecture_named(arch, "expressions")
    return draw_expression(
        by_hypothesis(draw), byte_order or architecture.byte_order, architecture.address_size, initial_depth
    )
