"""What GNU as and ld 2.47 make of the functions of a linked file: their own SFrame V3, to compare ours with.

Strategy: as writes `.sframe` from CFI directives alone. So the rows of `.eh_frame` become directives again
(`unwindkit.to_directives`) with the same distances; as encodes them, ld links at the same addresses.

Run as `python -m benchmarks.gas FILE FOLDER`: files are written to FOLDER, the figures to standard output as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from unwindkit import from_sframe, read_elf, to_directives
from unwindkit.converters.elf.image import open_elf

from roundtrip_tests.support.oracles import oracle_command

from .cases import GasSection
from .measure import version_line

# The section of the directives at its address; everything else after it.
_SCRIPT = "SECTIONS {{ .unwound {address} : {{ *(.unwound) }} .eh_frame : {{ *(.eh_frame) }} }}"


def reassembled(path: Path, folder: Path) -> GasSection:
    """Make `again.so` in a folder of the functions of a file. Raises OracleError, CalledProcessError."""
    table = read_elf(path)
    prefix = f"{table.architecture.name}-linux-gnu-"  # Debian's names, which the host's own programs have too
    source, made, script, linked = (folder / f"again.{suffix}" for suffix in ("s", "o", "ld", "so"))
    text, refusals = to_directives(table)
    source.write_bytes(text)
    # The text's first line: /* .unwound: address 0x... */
    script.write_text(_SCRIPT.format(address=text.split(maxsplit=4)[3].decode()))
    _run(*oracle_command(f"{prefix}as"), "--gsframe-3", "--no-warn", source, "-o", made)
    _run(*oracle_command(f"{prefix}ld"), "-shared", "-T", script, made, "-o", linked)
    image = open_elf(linked)
    sframe = image.contents(image.named(".sframe")[0])
    functions = text.count(b"\t.cfi_startproc")
    refused = functions - len(from_sframe(sframe.data, sframe.address))
    version = version_line(*map(str, oracle_command(f"{prefix}as")), "--version")
    return GasSection(version, len(sframe), functions, refused, len(refusals))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    print(json.dumps(asdict(reassembled(Path(sys.argv[1]), Path(sys.argv[2])))))
