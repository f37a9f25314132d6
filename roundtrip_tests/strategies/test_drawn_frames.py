"""The public strategies for call frame information: valid sections, read as they were drawn by readers of all kinds.

`python -m roundtrip_tests.drawn_frames` is the same with 2,000 sections of each kind.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path
from random import Random

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import find, given, settings
from unwindkit import BuildError, RuleKind, check_eh_frame_hdr, read_elf
from unwindkit.converters.elf.image import open_elf
from unwindkit.schemas.expressions import parse_expression
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.testing import (
    CallFrames,
    DwarfExpression,
    Feature,
    call_frames,
    elf_files,
    expressions,
)

from ..support.judges.drawn_frames import (
    MACHINES,
    PYELFTOOLS_CANNOT,
    SECTIONS,
    draw_many,
    our_differences,
    pyelftools_differences,
    readelf_cannot,
    readelf_differences,
    readelf_text,
)

# More in a long run.
COUNT, SEED = min(100, max(100, settings.default.max_examples) // 8), 18

every_machine = pytest.mark.parametrize(("arch", "order"), MACHINES, ids=[f"{a}-{o}" for a, o in MACHINES])
every_section = pytest.mark.parametrize("section", [dialect.name for dialect in SECTIONS])


@every_machine
@every_section
def test_drawn_rows_are_read(arch: str, order: ByteOrder, section: str, kernels: str) -> None:
    drawn = draw_many(call_frames(arch, section, order), COUNT, SEED)
    assert sum(len(frames.functions) for frames in drawn) > COUNT
    assert list(map(str, our_differences(drawn))) == []


@every_machine
@every_section
@pytest.mark.oracle
def test_drawn_rows_are_those_of_readelf(arch: str, order: ByteOrder, section: str, tmp_path: Path) -> None:
    """Without a message of readelf: that is an error."""
    drawn = draw_many(call_frames(arch, section, order, readelf_cannot(section, arch)), COUNT, SEED)
    assert sum(len(frames.functions) for frames in drawn) > COUNT
    assert list(map(str, readelf_differences(drawn, tmp_path))) == []


@every_machine
@every_section
def test_drawn_rows_are_those_of_pyelftools(arch: str, order: ByteOrder, section: str) -> None:
    drawn = draw_many(call_frames(arch, section, order, PYELFTOOLS_CANNOT), COUNT, SEED)
    assert sum(len(frames.functions) for frames in drawn) > COUNT
    assert list(map(str, pyelftools_differences(drawn))) == []


# Where each feature is to be found, if not in x86-64's .eh_frame.
ELSEWHERE = {
    Feature.AUGMENTED_DEBUG_FRAME: ("x86_64", ".debug_frame"),
    Feature.CIE_AFTER_FDE: ("x86_64", ".debug_frame"),
    Feature.WIDE_ADDRESS: ("x86", ".eh_frame"),
    Feature.WINDOW_SAVE: ("sparc64", ".eh_frame"),
    **dict.fromkeys(
        (Feature.NEGATE_RA_STATE, Feature.NEGATE_RA_STATE_WITH_PC, Feature.PAUTH_B_KEY, Feature.MEMORY_TAGGING),
        ("aarch64", ".eh_frame"),
    ),
}


@functools.cache
def some_features(arch: str, section: str, seed: int) -> frozenset[Feature]:
    drawn = draw_many(call_frames(arch, section), 40, seed)
    return frozenset[Feature]().union(*(frames.features for frames in drawn))


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_a_feature_is_drawn_unless_it_is_left_out(feature: Feature) -> None:
    arch, section = ELSEWHERE.get(feature, ("x86_64", ".eh_frame"))
    assert any(feature in some_features(arch, section, seed) for seed in range(10))
    without_it = draw_many(call_frames(arch, section, without={feature}), 20, SEED)
    assert [frames for frames in without_it if feature in frames.features] == []


def test_a_section_shrinks_to_one_function_of_a_few_bytes() -> None:
    """The smaller of two: one search in seven ends at a CIE whose augmentation has more letters than it needs."""

    def saves_a_register(frames: CallFrames) -> bool:
        return any(rule.kind is RuleKind.OFFSET for one in frames.functions for rule in one.rows[-1].registers)

    limits = settings(max_examples=5000, database=None)
    searches = (find(call_frames(), saves_a_register, settings=limits, random=Random(seed)) for seed in range(2))
    found = min(searches, key=lambda one: (len(one.features), len(one.data)))
    (function,) = found.functions
    assert 1 <= function.size <= 2 >= len(function.rows)
    assert found.features <= {Feature.INITIAL_RULES, Feature.NO_CFA}
    assert len(found.data) < 60


@given(call_frames("aarch64"))
def test_rows_are_found_by_pc(frames: CallFrames) -> None:
    for pc in frames.pcs():
        function = frames.function_at(pc)
        row = frames.row_at(pc)
        assert (function is None) is (row is None)
        if function is not None and row is not None:
            assert row.offset <= pc - function.start < function.size
            assert [one for one in function.rows if row.offset < one.offset <= pc - function.start] == []
    for function in frames.functions:
        if function.size:
            assert frames.row_at(function.start) is function.rows[0]
            assert frames.function_at(function.start + function.size) is not function


@given(call_frames("s390x", ".debug_frame"))
def test_a_drawn_table_has_the_drawn_functions(frames: CallFrames) -> None:
    assert tuple(frames.table()) == frames.functions


@every_machine
def test_drawn_files_are_read(arch: str, order: ByteOrder) -> None:
    for file in draw_many(elf_files(arch, order), COUNT, SEED):
        for frames in file.frames:
            (section,) = (one for one in ELFFile(io.BytesIO(file.data)).iter_sections() if one.name == frames.name)
            assert section.data() == frames.data
            starts = [(one.start, one.size, one.lsda, one.origin) for one in read_elf(file.data, frames.name)]
            assert starts == [(one.start, one.size, one.lsda, one.origin) for one in frames.functions]
        if file.has_header:
            image = open_elf(file.data)
            header = image.contents(image.named(".eh_frame_hdr")[0])
            (frames, *_) = file.frames
            assert check_eh_frame_hdr(header, [(frames.section, frames.table())]).sentences() == ()


@pytest.mark.parametrize("arch", ["x86", "x86_64", "ppc", "s390x"])
@pytest.mark.oracle
def test_readelf_finds_no_fault_in_drawn_files(arch: str, tmp_path: Path) -> None:
    path = tmp_path / "drawn.elf"
    without = readelf_cannot(".eh_frame") | readelf_cannot(".debug_frame")
    for file in draw_many(elf_files(arch, without=without), 10, SEED):
        path.write_bytes(file.data)
        for option in ("-aW", "-wNf"):
            assert readelf_text(path, option)


@given(expression=expressions("s390x", initial_depth=1))
def test_drawn_expressions_are_parsed_into_their_operations(expression: DwarfExpression) -> None:
    section = Section.of("expression", expression.data, byte_order="big")
    assert tuple(one.name for one in parse_expression(section)) == expression.operations
    assert expression.depth >= 1


def test_what_cannot_be_drawn_is_refused_before_it_is_drawn() -> None:
    with pytest.raises(BuildError, match="'vax' is not one of"):
        call_frames("vax")
    with pytest.raises(BuildError, match=r"'\.sframe' is not \.eh_frame or \.debug_frame"):
        call_frames("x86", ".sframe")
