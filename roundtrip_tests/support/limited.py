"""A few lines of Python run in a separate process, with limits of CPU time and of memory.

Strategy: the limits apply from the line LIMITS on, after the imports and the creation of the input.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

MEGABYTE = 1 << 20

# In the child: the limits apply from here, when numpy and construct are loaded.
PRELUDE = """
import os, resource
from unwindkit import FormatError, by_pc, find_fres, from_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.dump.readelf import cfi_text
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.sframe.dump import sframe_json, sframe_text
from unwindkit.schemas import cfi_sections, engine
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.schemas.eh_frame_hdr import EhFrameHdr
from unwindkit.schemas.section import Section

def entry(body):
    return len(body).to_bytes(4, "little") + body

CIE = entry(bytes.fromhex("00000000 01 00 01 78 10 0c0708 9001"))

def fde(at, instructions, start=0x1000):
    header = (at + 4).to_bytes(4, "little") + start.to_bytes(8, "little") + (1 << 40).to_bytes(8, "little")
    return entry(header + instructions)

def table(data, architecture="x86_64"):
    return table_from_cfi(Section.of(".eh_frame", data), EH_FRAME, ARCHITECTURES[architecture])

def sframe(fdes, fres, count, version=2):
    import struct
    head = bytes.fromhex(f"e2de 0{version} 00 03 00 f8 00") + struct.pack("<IIIII", count, 0, len(fres), 0, len(fdes))
    return head + fdes + fres

def dump(data):
    return sframe_text(Section.of(".sframe", data))

def printed(data, interpreted):
    return sum(map(len, cfi_text(Section.of(".eh_frame", data), EH_FRAME, "EM_PPC", interpreted)))

def limited(megabytes, seconds):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (megabytes << 20),) * 2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + 0.999) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

table(CIE + fde(len(CIE), b"")), from_sframe(sframe(b"", b"", 0)), find_fres(sframe(b"", b"", 0), 0)
b"".join(dump(sframe(b"", b"", 0))), printed(CIE + fde(len(CIE), bytes.fromhex("41")), True)
"""


def run(code: str, megabytes: int, seconds: int) -> str:
    """The child's output. Fails if it needs more than the limits allow."""
    program = f"{PRELUDE}\n{textwrap.dedent(code).replace('LIMITS', f'limited({megabytes}, {seconds})')}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def compiled_only() -> None:
    """Sizes here are for the compiled kernels; the pure ones do the same, a hundred times slower."""
    pytest.importorskip("unwindkit.converters.kernels.cfi._interpreter", reason="the compiled kernels were not built")
