"""Names of source files: other prefixes, and paths in repositories."""

from __future__ import annotations

from typing import Literal

import pytest
from unwindkit import BuildError, PathMap, prefix_map, repository_map
from unwindkit.converters.breakpad.function_text import to_function_records
from unwindkit.converters.breakpad.source_paths import map_paths

from ..support.function_tables import Drawn, line_records_of, table_of


def mapped(path: bytes, *maps: PathMap) -> bytes:
    return map_paths([path], maps)[0]


def test_a_prefix_is_any_text_at_the_start() -> None:
    one = prefix_map("/build/x-=/usr/src/x/")
    assert mapped(b"/build/x-1.0/a.c", one) == b"/usr/src/x/1.0/a.c"
    assert mapped(b"./build/x-1.0/a.c", one) == b"./build/x-1.0/a.c"
    assert mapped(b"/a/c", prefix_map("/a==b")) == b"=b/c"
    assert mapped(b"/a/c", prefix_map("/a=")) == b"/c"


def test_the_longest_prefix_wins_and_of_equal_ones_the_last() -> None:
    maps = [prefix_map(text) for text in ("/a=1", "/a/b=2", "/a=3")]
    assert mapped(b"/a/b/c", *maps) == b"2/c"
    assert mapped(b"/a/c", *maps) == b"3/c"


SYSTEMS: list[Literal["git", "hg"]] = ["git", "hg"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_file_in_a_repository_is_named_as_symbol_servers_name_it(system: Literal["git", "hg"]) -> None:
    """The names in Mozilla's files: hg:hg.mozilla.org/mozilla-central:a/c/ddd.cpp:6639deb8."""
    one = repository_map(system, "/home/worker/=hg.mozilla.org/mozilla-central@6639deb8")
    name = f"{system}:hg.mozilla.org/mozilla-central:a/c/ddd.cpp:6639deb8"
    assert mapped(b"/home/worker/a/c/ddd.cpp", one) == name.encode()
    assert mapped(b"/home/worker2/a.c", one) == b"/home/worker2/a.c"


def test_a_repository_may_contain_an_at_sign() -> None:
    assert repository_map("git", "/s=git@github.com/o/r@v1") == PathMap(b"/s/", b"git:git@github.com/o/r:", b":v1")


@pytest.mark.parametrize("text", ["", "/a", "=/b"])
def test_a_map_without_an_old_prefix_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match="expected OLD=NEW"):
        prefix_map(text)


@pytest.mark.parametrize("text", ["/a", "/a=b", "/a=b@", "/a=@c", "=b@c", "/=b@c", "/a=https://b@c", "/a=b@c:d"])
def test_a_map_that_would_not_be_read_back_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match=r"expected DIR=REPOSITORY@REVISION|contains a colon"):
        repository_map("git", text)


@pytest.mark.parametrize("text", ["/a\n=/b", "/a=/b\nFUNC 0 1 0 f", "/a=/b\r", "/a=\0"])
def test_a_map_with_a_line_break_or_a_nul_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match="contains a line break or a NUL"):
        prefix_map(text)
    with pytest.raises(BuildError, match=r"suffix: .* contains a line break"):
        PathMap(b"/a", b"/b", b":1\n")


def test_files_that_get_the_same_name_are_one() -> None:
    """/a.c and /b b.c: adjacent lines of equal numbers become one record, too."""
    drawn = Drawn(((0, ((0x1000, 4),)),), (), {0x1000: (7, 0), 0x1001: (7, 1), 0x1002: (7, 3)})
    paths = [prefix_map("/a.c=x"), prefix_map("/b b.c=x")]
    text = to_function_records(table_of(drawn), line_records_of(drawn), paths=paths)
    assert text.splitlines() == [b"FILE 0 x", b"FILE 1 /d.c", b"FUNC 1000 4 0 f", b"1000 2 7 0", b"1002 1 7 1"]
