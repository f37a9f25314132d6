"""What tests share: the engine that conversions run on, hypothesis's number of examples, and compiled programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings
from unwindkit.converters.kernels import engine

from .support.commands import built_program_fixture, copy_fixture
from .support.oracles import pytest_runtest_setup
from .support.programs.debug_programs import debug_folder_fixture
from .support.programs.elf_programs import built_fixture

__all__ = [
    "built_fixture",
    "built_program_fixture",
    "copy_fixture",
    "debug_folder_fixture",
    "engine_in_use",
    "fewer",
    "pytest_runtest_setup",
]


# A law is tested on 100 examples, on 250 with HYPOTHESIS_PROFILE=thorough, and on 1,000 in a long run.
# On .ci/run's fresh system it is tested on 20: there the question is whether README's commands pass.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
settings.register_profile("fresh", max_examples=20, **_COMMON)
settings.register_profile("quick", max_examples=100, **_COMMON)
settings.register_profile("thorough", max_examples=250, **_COMMON)
settings.register_profile("long", max_examples=1000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def fewer(divisor: int) -> settings:
    """A part of the profile's examples: for a law whose examples each write files, run a program, or walk all PCs."""
    return settings(max_examples=max(20, settings.default.max_examples // divisor))


@contextmanager
def engine_in_use(name: str) -> Iterator[None]:
    """Let conversions run on one engine; skips if the compiled one was not built, unless it is required."""
    try:
        chosen = engine.load(name)
    except ImportError as error:
        if os.environ.get("UNWINDKIT_REQUIRE_COMPILED") == "1":
            pytest.fail(f"the compiled kernels are missing: {error}")
        pytest.skip(f"the compiled kernels were not built: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "chosen", lambda: chosen)
        yield


@pytest.fixture(params=["pure", "compiled"], name="kernels")
def _kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once on each engine; the value is the engine's name."""
    with engine_in_use(request.param):
        yield str(request.param)
