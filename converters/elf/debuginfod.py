"""Debug files of debuginfod servers: the protocol of elfutils, GET URL/buildid/ID/debuginfo, and a cache of its own.

Strategy: a file appears in the cache complete or not at all, and only if its build id is the one that was asked for. A
server that does not answer is not asked again by this process, so that it costs a batch one timeout, not one a file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.section import FormatError
from .identity import build_id
from .image import open_elf

URLS, TIMEOUT = "DEBUGINFOD_URLS", "DEBUGINFOD_TIMEOUT"
DEFAULT_TIMEOUT = 90.0  # seconds, as in elfutils
MAX_SIZE = 8 << 30
CHUNK = 1 << 20
SCHEMES = ("http://", "https://")
# The first wait for a server that did not answer; it is asked again after twice as long each time.
FIRST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class DebugServers:
    """Servers that are asked in order for debug files; `cache` is the folder of the files that came; `timeout`, in
    seconds, is for the connection, for any pause, and for a file as a whole up to its first byte."""

    urls: tuple[str, ...]
    cache: str
    timeout: float = DEFAULT_TIMEOUT


def servers_of(environment: Mapping[str, str]) -> DebugServers:
    """The servers of the environment: DEBUGINFOD_URLS, with spaces between them, and DEBUGINFOD_TIMEOUT. The cache is
    unwindkit/debuginfod in XDG_CACHE_HOME, or in ~/.cache. Raises ValueError for what is no URL or no time."""
    urls = tuple(environment.get(URLS, "").split())
    wrong = [url for url in urls if not url.startswith(SCHEMES)]
    if wrong:
        raise ValueError(f"{URLS} has {wrong[0]!r}, which does not start with {' or '.join(SCHEMES)}")
    text = environment.get(TIMEOUT, "")
    timeout = float(text) if text else DEFAULT_TIMEOUT
    if not timeout > 0:
        raise ValueError(f"{TIMEOUT} is {text!r}, which is not a time")
    home = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return DebugServers(urls, os.path.join(home, "unwindkit", "debuginfod"), timeout)


# When a server that did not answer is asked again, by its URL (`time.monotonic`), and the pause after that.
_pauses: dict[str, tuple[float, float]] = {}


def fetch_debug_file(servers: DebugServers, identifier: bytes, note: Callable[[str], None]) -> Path | None:
    """The debug file with a build id, from the cache or from the first server that has it; None if there is none.
    `note` is called with a sentence for each server that failed. Raises OSError if the cache cannot be written."""
    place = Path(servers.cache, identifier.hex(), "debuginfo")
    if place.is_file():
        return place
    for url in servers.urls:
        if _pauses.get(url, (0.0, 0.0))[0] > time.monotonic():
            continue
        reason = _fetch(f"{url.rstrip('/')}/buildid/{identifier.hex()}/debuginfo", servers.timeout, identifier, place)
        if reason is None:
            return place
        if reason:
            note(f"debuginfod: {url}: {reason}")
        if reason.startswith(NO_ANSWER):
            pause = 2 * _pauses.get(url, (0.0, FIRST_PAUSE / 2))[1]
            _pauses[url] = time.monotonic() + pause, pause
    return None


NO_ANSWER = "no answer"


def _fetch(url: str, timeout: float, identifier: bytes, place: Path) -> str | None:
    """Put what a URL has into the cache; otherwise the reason, "" if the server does not have the file."""
    import http.client  # by commands that ask servers only
    import urllib.error
    import urllib.request

    place.parent.mkdir(parents=True, exist_ok=True)
    name = place.with_name(f".unwindkit-{os.getpid()}-{time.monotonic_ns():x}")
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "unwindkit"})
        with name.open("xb") as out, urllib.request.urlopen(request, timeout=timeout) as answer:
            size, deadline = 0, time.monotonic() + timeout
            while chunk := answer.read1(CHUNK):
                out.write(chunk)
                size += len(chunk)
                # A server that sends a few bytes now and then is as good as none.
                if size > MAX_SIZE or time.monotonic() > deadline + size / (1 << 16):
                    return f"{NO_ANSWER}: too slow or too large, after {size:,} bytes"
            expected = answer.headers.get("Content-Length")
            if expected is not None and expected != str(size):
                return f"{size:,} bytes came of {expected}"
        found = build_id(open_elf(name))
        if found != identifier:
            return f"a file with the build id {found.hex() or '(none)'} came for {identifier.hex()}"
        name.replace(place)
    except urllib.error.HTTPError as error:
        error.close()
        return "" if error.code == http.HTTPStatus.NOT_FOUND else f"HTTP status {error.code}"
    except FormatError as error:
        return f"what came for {identifier.hex()} is malformed: {error}"
    except (OSError, http.client.HTTPException) as error:
        return f"{NO_ANSWER}: {getattr(error, 'reason', None) or error}"
    else:
        return None
    finally:
        Path(name).unlink(missing_ok=True)
