"""The fuzz targets that are readers and writers, by name."""

from __future__ import annotations

from .file_targets import FILE_TARGETS
from .section_targets import SECTION_TARGETS
from .target import Target
from .text_targets import TEXT_TARGETS

READING_TARGETS: dict[str, Target] = {one.name: one for one in (*SECTION_TARGETS, *TEXT_TARGETS, *FILE_TARGETS)}
