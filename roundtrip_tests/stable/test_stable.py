"""What users may rely on is as it was written down."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from .describe import STORED, described, differences, shape


def test_names_options_exit_codes_and_json_are_as_promised(tmp_path: Path) -> None:
    """A change of it belongs in CHANGELOG.md; then `python -m roundtrip_tests.stable` writes it down."""
    found = json.loads(json.dumps(described(tmp_path)))
    assert differences(json.loads(STORED.read_text(encoding="utf-8")), found) == []


def test_each_kind_of_change_is_seen() -> None:
    promised = json.loads(STORED.read_text(encoding="utf-8"))
    found = copy.deepcopy(promised)
    del found["names"]["read_elf"]
    found["commands"]["find"]["--json"]["takes"] = 1
    found["exit codes"]["MORE"] = 3
    assert differences(promised, found) == [
        "/names/read_elf: gone",
        "/commands/find/--json/takes: was 0, is 1",
        "/exit codes/MORE: new",
    ]


def test_shapes_of_lists_are_joined() -> None:
    assert shape([{"a": 1}, {"a": None, "b": "x"}]) == {"[]": {"a": "int or null", "b": "str"}}
    assert shape([]) == {"[]": None}
