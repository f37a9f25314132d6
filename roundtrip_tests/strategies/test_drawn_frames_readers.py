"""What readelf 2.47 and pyelftools 0.33 read wrongly, feature by feature: why drawn sections for them are without it.

Strategy: sections are drawn with one such feature and none of the others; unwindkit reads them as they were drawn, and
the other reader finds something else in at least one. The manual has a line for each feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from unwindkit.testing import CallFrames, Feature, call_frames

from ..support.judges.drawn_frames import (
    PYELFTOOLS_CANNOT,
    draw_many,
    our_differences,
    pyelftools_differences,
    readelf_cannot,
    readelf_differences,
)
from ..support.oracles import OracleError

# Sections are drawn until one is read wrongly.
COUNT, SEEDS = 60, range(18, 32)
MANUAL = Path(__file__).parents[2] / "docs" / "strategies.md"
# Of which machine and section, if not x86-64's .eh_frame.
PLACES = {
    Feature.CIE_AFTER_FDE: ("x86_64", ".debug_frame"),
    Feature.AUGMENTED_DEBUG_FRAME: ("x86_64", ".debug_frame"),
    Feature.NEGATE_RA_STATE_WITH_PC: ("aarch64", ".eh_frame"),
    Feature.WINDOW_SAVE: ("sparc64", ".eh_frame"),
}
FOR_READELF = sorted(readelf_cannot(".eh_frame"), key=lambda feature: feature.name)
FOR_PYELFTOOLS = sorted(PYELFTOOLS_CANNOT, key=lambda feature: feature.name)


def sections_with(feature: Feature, cannot: frozenset[Feature]) -> Iterator[list[CallFrames]]:
    """Sections with one feature of those, all read by unwindkit, some at a time."""
    arch, section = PLACES.get(feature, ("x86_64", ".eh_frame"))
    for seed in SEEDS:
        drawn = draw_many(call_frames(arch, section, without=cannot - {feature}), COUNT, seed)
        found = [frames for frames in drawn if feature in frames.features]
        assert list(map(str, our_differences(found))) == []
        yield found


def is_read_by_readelf(frames: CallFrames, folder: Path) -> bool:
    try:
        return list(readelf_differences([frames], folder)) == []
    except (OracleError, AssertionError, ValueError, KeyError, IndexError):
        # A message of readelf, or text that no valid section has.
        return False


@pytest.mark.oracle
@pytest.mark.parametrize("feature", FOR_READELF, ids=lambda feature: feature.name)
def test_what_readelf_reads_wrongly(feature: Feature, tmp_path: Path) -> None:
    found = sections_with(feature, readelf_cannot(".eh_frame"))
    assert not all(is_read_by_readelf(frames, tmp_path) for some in found for frames in some)


@pytest.mark.parametrize("feature", FOR_PYELFTOOLS, ids=lambda feature: feature.name)
def test_what_pyelftools_reads_wrongly(feature: Feature) -> None:
    assert any(True for some in sections_with(feature, PYELFTOOLS_CANNOT) for _ in pyelftools_differences(some))


def test_the_manual_lists_these_features() -> None:
    readelf, pyelftools = MANUAL.read_text(encoding="utf-8").partition("| feature | readelf")[2].split("| feature | py")
    for text, features in ((readelf, FOR_READELF), (pyelftools, FOR_PYELFTOOLS)):
        assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")] == [
            feature.name for feature in features
        ]
