"""Small files whose line tables or macros name one long string again and again: memory and time stay in proportion.

Each case is run at its size and at twice that, in a separate process with limits of address space and CPU time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from ..support.limited import compiled_only, run

# In the child: a file of sections, and a line number program of version 5 with the given directories and files.
MADE = """
import json, struct
import unwindkit
from unwindkit.jobs.dump import dump_json, dump_lines, dump_sections

def leb(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + leb(value >> 7)

def elf(*contents):
    # Contents: name, bytes. No program headers.
    names = b"\\0" + b"".join(name.encode() + b"\\0" for name, _ in contents) + b".shstrtab\\0"
    data, headers = bytearray(64), [bytes(64)]
    for name, body in (*contents, (".shstrtab", names)):
        kind = 3 if name == ".shstrtab" else 1
        at = names.index(name.encode() + b"\\0")
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, len(data), len(body), 0, 0, 1, 0))
        data += body
    data[:64] = b"\\x7fELF\\2\\1\\1" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, len(data), 0, 64, 56, 0, 64, len(headers), len(headers) - 1
    )
    return bytes(data + b"".join(headers))

def unit(dirs, files, program=b"", form=8):
    # DW_LNCT_path of each directory as DW_FORM_string, of each file as `form`; DW_LNCT_directory_index as udata.
    head = bytes.fromhex("01 01 01 fb 0e 0d 00010101 01000000 01000001 01 01 08")
    head += leb(len(dirs)) + b"".join(dirs) + bytes([2, 1, form, 2, 0x0F]) + leb(len(files)) + b"".join(files)
    body = (5).to_bytes(2, "little") + bytes([8, 0]) + len(head).to_bytes(4, "little") + head
    body += bytes.fromhex("000902 0010000000000000") + program + bytes.fromhex("0210 000101")
    return len(body).to_bytes(4, "little") + body

def set_files(numbers):
    return b"".join(b"\\x04" + leb(number) + b"\\x01\\x02\\x01" for number in numbers)

def refused(read):
    try:
        return read()
    except FormatError as error:
        return f"{error.section}: {error.record}"

def json_of(data, name):
    return (json.dumps(part) for section in dump_json(data, (name,)) for part in section.parts)

def size(pieces):
    return sum(map(len, pieces))

def tails(n):
    # n files, whose names are all tails of one string of 4n bytes.
    files = [(4 * number).to_bytes(4, "little") + b"\\0" for number in range(n)]
    sections = [(".debug_line", unit([b"/d\\0"], files, form=0x1F)), (".debug_line_str", b"x" * (4 * n) + b"\\0")]
    return elf(*sections)

def long_directory(n):
    # n files in one directory whose name has 4n bytes.
    program = set_files(range(n))
    files = [b"%x\\0" % number + b"\\0" for number in range(n)]
    return elf((".debug_line", unit([b"/" + b"d" * (4 * n) + b"\\0"], files, program)))

def macros(n):
    # n definitions whose texts are tails of one string of 8n bytes.
    entries = b"".join(b"\\5\\1" + (8 * number).to_bytes(4, "little") for number in range(n))
    return elf((".debug_macro", b"\\5\\0\\0" + entries + b"\\0"), (".debug_str", b"x" * (8 * n) + b"\\0"))


def two_names(n):
    # n rows, each of another of two files, whose names have 4n bytes.
    files = [letter * (4 * n) + b"\\0\\0" for letter in (b"y", b"z")]
    return elf((".debug_line", unit([b"/d\\0"], files, set_files(number % 2 for number in range(n)))))


# What needs memory once, whatever the input: imports.
unwindkit.find_lines(long_directory(1), [0x1000])
unwindkit.to_line_records(unwindkit.read_lines(long_directory(1)))
unwindkit.to_debug_line(unwindkit.read_lines(long_directory(1)))
for view in ("raw", "decoded"):
    size(dump_lines(tails(1), view))
size(dump_sections(macros(1), (".debug_macro",)))
list(json_of(tails(1), ".debug_line")), list(json_of(macros(1), ".debug_macro"))
"""

# The address space in megabytes that a case may take beyond ten times its input, which is below one megabyte.
MEGABYTES, SECONDS = 150, 4

CASES = [
    pytest.param(
        30_000,
        """
        data = tails(N)
        LIMITS
        table = unwindkit.read_lines(data)
        print(len(table.files), len(table.strings[int(table.files.path[1])]) == 4 * N - 4)
        print(refused(lambda: unwindkit.to_debug_line(table)))
        print(refused(lambda: list(json_of(data, ".debug_line"))))
        """,
        lambda n: f"{n} True\n.debug_line: files\n.debug_line: unit[0]",
        id="files whose names are tails of one string",
    ),
    pytest.param(
        30_000,
        """
        data = long_directory(N)
        LIMITS
        found = unwindkit.find_lines(data, [0x1000, 0x1001])
        print(len(found.paths), len(found.paths[0]) - 4 * N)
        """,
        # Files 0 and 1; the directory's name begins with a separator, and a separator and one digit follow it.
        lambda n: "2 3",
        id="the line of an address in a directory of a long name",
    ),
    pytest.param(
        20_000,
        """
        data = long_directory(N)
        LIMITS
        table = unwindkit.read_lines(data)
        number, paths = unwindkit.paths_of(table)
        print(len(paths), len(paths[N - 1]) > 4 * N)
        print(refused(lambda: unwindkit.to_line_records(table)))
        print(unwindkit.same_lines(table, unwindkit.read_lines(data)))
        """,
        lambda n: f"{n} True\nline records: files\nTrue",
        id="whole paths in a directory of a long name",
    ),
    pytest.param(
        10_000,
        """
        data = macros(N)
        LIMITS
        print(size(dump_sections(data, (".debug_macro",))) > 4 * N * N)
        print(refused(lambda: list(json_of(data, ".debug_macro"))))
        """,
        lambda n: "True\n.debug_macro: unit[0]",
        id="macros whose texts are tails of one string",
    ),
    pytest.param(
        10_000,
        """
        data = two_names(N)
        LIMITS
        print(size(dump_lines(data, "decoded")) > 4 * N * N, size(dump_lines(data, "raw")) > 8 * N)
        """,
        lambda n: "True True",
        id="rows that change between files of long names",
    ),
    pytest.param(
        10_000,
        """
        data = tails(N)
        LIMITS
        print(size(dump_lines(data, "raw")) > 2 * N * N)
        """,
        lambda n: "True",
        id="the raw dump of names that are tails of one string",
    ),
]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("count", "code", "expected"), CASES)
def test_long_names(count: int, code: str, expected: Callable[[int], str], times: int) -> None:
    compiled_only()
    program = f"{MADE}\nN = {times * count}\n{textwrap.dedent(code)}"
    assert run(program, MEGABYTES, SECONDS) == expected(times * count)
