"""All fuzz targets, by name: readers and writers, and kernels alone."""

from __future__ import annotations

from .alone.kernels import KERNELS
from .reading_targets import READING_TARGETS
from .target import Target

KERNEL_TARGETS: dict[str, Target] = {one.name: one.target() for one in KERNELS}
TARGETS: dict[str, Target] = {**READING_TARGETS, **KERNEL_TARGETS}
