"""Debug files of debuginfod servers: elfutils' own, and servers that are down, slow, or send something else."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from unwindkit.converters.elf import debuginfod
from unwindkit.converters.elf.debuginfod import DebugServers, fetch_debug_file, servers_of
from unwindkit.converters.elf.identity import build_id
from unwindkit.converters.elf.image import open_elf

from ..support.commands import DONE, WRONG, unwindkit
from ..support.oracles import absent
from .test_debug_packages import Built, build_programs, functions_of

pytestmark = pytest.mark.oracle("dwz")

Answer = Callable[[http.server.BaseHTTPRequestHandler, str], None]


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_programs(tmp_path_factory.mktemp("built"))


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debuginfod, "_pauses", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "2")
    # Of the system's proxies none is for this machine.
    monkeypatch.setenv("no_proxy", "*")


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The URL of a server that answers so; the path of each request is given."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, self.path)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def files_by_id(built: Built) -> dict[str, bytes]:
    paths = [path for path in built.debug.rglob("*.debug") if path.is_file()]
    return {f"/buildid/{build_id(open_elf(path)).hex()}/debuginfo": path.read_bytes() for path in paths}


def sends(handler: http.server.BaseHTTPRequestHandler, data: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data) if length is None else length))
    handler.end_headers()
    handler.wfile.write(data)


def the_files_of(built: Built) -> Answer:
    files = files_by_id(built)

    def answer(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
        if path in files:
            sends(handler, files[path])
        else:
            handler.send_error(404)

    return answer


def stored(built: Built, folder: Path, *options: str) -> tuple[dict[str, list[bytes]], str]:
    """The functions of the store made from the stripped programs, and what was printed."""
    done = unwindkit("breakpad", built.programs, "--store", folder, "--debuginfod", *options)
    assert done.returncode == DONE, done.stderr
    return {path.stem: functions_of(path.read_bytes()) for path in folder.rglob("*.sym")}, done.stderr


def test_a_store_made_with_a_server_is_that_of_the_debug_files(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(the_files_of(built)) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"{url} ")
        assert stored(built, tmp_path / "store", "-j", "2")[0] == built.records
    # The server is down; everything is in the cache.
    found, printed = stored(built, tmp_path / "again")
    assert (found, "debuginfod:" in printed) == (built.records, False)
    assert not list((tmp_path / "cache").rglob(".unwindkit-*"))


def test_elfutils_server(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("debuginfod")
    if program is None:
        absent("there is no debuginfod")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [program, "-p", str(port), "-d", str(tmp_path / "db"), "-F", built.debug, "-c", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for([f"{url}{path}" for path in files_by_id(built)])
            monkeypatch.setenv("DEBUGINFOD_URLS", url)
            assert stored(built, tmp_path / "store")[0] == built.records
        finally:
            server.terminate()


def wait_for(urls: list[str]) -> None:
    """Wait until a server has the files."""
    end = time.monotonic() + 30
    for url in urls:
        while True:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    answer.read()
                break
            except urllib.error.URLError:
                assert time.monotonic() < end, f"{url} is not there"
                time.sleep(0.1)


def other_file(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    sends(handler, Path("/bin/true").resolve().read_bytes())


def no_elf_file(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    sends(handler, b"<html>sign in</html>")


def too_short(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    sends(handler, b"\x7fELF", 5000)


def failing(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    handler.send_error(503)


def silent(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    time.sleep(4)


def by_drops(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(40):
        try:
            handler.wfile.write(b"x")
            handler.wfile.flush()
        except OSError:
            return
        time.sleep(0.1)


def unknown(handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
    handler.send_error(404)


ANSWERS: dict[Answer, str] = {
    other_file: "a file with the build id ",
    no_elf_file: "is malformed: not an ELF file",
    too_short: "bytes came of 5000",
    failing: "HTTP status 503",
    silent: "no answer: ",
    by_drops: "no answer: too slow or too large",
    unknown: "",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_server_without_the_file_is_noted_and_the_batch_goes_on(
    answer: Answer, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "1")
    with serving(answer) as url:
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        found, printed = stored(built, tmp_path / "store")
        assert found == {"one": [], "two": []}
        notes = [line for line in printed.splitlines() if "debuginfod:" in line]
        assert all(f"  debug file debuginfod: {url}: " in line and ANSWERS[answer] in line for line in notes)
        assert len(notes) == (0 if not ANSWERS[answer] else 1 if "no answer" in ANSWERS[answer] else 2)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    with serving(answer) as bad, serving(the_files_of(built)) as good:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"{bad} {good}")
        assert stored(built, tmp_path / "second")[0] == built.records, "the next server is asked"


def test_a_server_that_is_down_is_asked_once(built: Built, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        notes: list[str] = []
        servers = DebugServers((url,), str(tmp_path / "cache"), 1)
        for number in range(3):
            assert fetch_debug_file(servers, bytes([number]) * 20, notes.append) is None
    assert len(notes) == 1
    assert notes[0].startswith(f"debuginfod: {url}: no answer: ")


def test_what_the_environment_may_have(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = servers_of({"DEBUGINFOD_URLS": "http://a  https://b/c", "XDG_CACHE_HOME": "/x"})
    assert found == DebugServers(("http://a", "https://b/c"), "/x/unwindkit/debuginfod", 90)
    for environment, says in (
        ({}, "--debuginfod requires DEBUGINFOD_URLS"),
        ({"DEBUGINFOD_URLS": "file:///etc"}, "which does not start with http://"),
        ({"DEBUGINFOD_URLS": "http://a", "DEBUGINFOD_TIMEOUT": "-1"}, "DEBUGINFOD_TIMEOUT is '-1'"),
    ):
        for name in ("DEBUGINFOD_URLS", "DEBUGINFOD_TIMEOUT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        done = unwindkit("breakpad", built.programs, "--store", tmp_path / "store", "--debuginfod")
        assert (done.returncode, says in done.stderr) == (WRONG, True)
    assert os.listdir(tmp_path) == []
