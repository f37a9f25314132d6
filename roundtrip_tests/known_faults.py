"""Readers that nobody here wrote, and what each of them cannot read: `python -m roundtrip_tests.known_faults`.

With a reader, a format and the name of a feature or fault, the command asks the reader about cases with it and without
all others that the reader cannot read: the report shows the fault, with the smallest case and its bytes. Without a
name it asks about cases without any. The faults are described in docs/other-tools.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unwindkit.conform.report import report_text
from unwindkit.conform.run import SHRINKS, Result, conform
from unwindkit.corpus.formats import Options, format_named
from unwindkit.testing import Feature

from .support.judges.drawn_frames import PYELFTOOLS_CANNOT, readelf_cannot
from .support.oracles import LIBSFRAME, oracle_command, oracle_root

FRAMES = ("eh-frame", "debug-frame")
LINES = ("debug-line-2", "debug-line-3", "debug-line-4", "debug-line-5")
Command = Callable[[], Sequence[str | Path]]


def names(text: str) -> frozenset[str]:
    """What `--without` leaves out."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class KnownReader:
    """A reader, as an adapter asks it. `command`: the reader's own; `cannot`: the features and faults that it does not
    read, by format, and architectures whose registers the adapter does not know; `valid_only`: it is not asked about
    broken sections; `raw`: it gets the bytes of a section."""

    adapter: str
    command: Command
    cannot: Mapping[str, frozenset[str]]
    valid_only: bool = False
    raw: bool = False

    def ask(self, form: str, count: int, shown: str | None = None, shrinks: int = 0) -> Result:
        """Ask it about cases without what it cannot read but for `shown`."""
        arguments = ["-m", f"roundtrip_tests.adapters.{self.adapter}", *map(str, self.command())]
        is_fault = shown in format_named(form).faults
        without = self.cannot[form] | (frozenset(format_named(form).faults) if self.valid_only else frozenset())
        options = Options(without=without - {shown}, valid_only=self.valid_only and not is_fault)
        return conform([sys.executable, *arguments], [form], count, options, raw=self.raw, shrinks=shrinks)


def _program(name: str, suite: str = "forky") -> Command:
    return lambda: oracle_command(name, suite)


def _libsframe() -> Sequence[str | Path]:
    return [next(oracle_root().glob(LIBSFRAME))]


def _frames(cannot: str, eh_frame: str = "", debug_frame: str = "") -> dict[str, frozenset[str]]:
    """What a reader of call frame information cannot read in both sections, and in each."""
    return {"eh-frame": names(f"{cannot} {eh_frame}"), "debug-frame": names(f"{cannot} {debug_frame}")}


def _of_frames(form: str, cannot: Collection[Feature], further: str) -> frozenset[str]:
    known = {feature.name.lower().replace("_", "-") for feature in cannot}
    return frozenset(known & set(format_named(form).features)) | names(further)


_SFRAME = "auxiliary-header gaps shared-fres"
_READELF_SFRAME = names(f"{_SFRAME} abi num-fdes freoff fre-len start-fre-off offset-size offset-count")
_LIBSFRAME = names(f"{_SFRAME} unsorted section-relative")
# In each of the texts of frames: first the machines whose registers the adapter does not know.
_LLVM_FRAMES = """
    x86 x32 arm mips mips64 ppc ppc64 riscv32
    advance-loc8 negative-offset-extended set-loc negate-ra-state-with-pc old-augmentation address-size
    extra-augmentation-data aligned-pointer aligned-address signed-pointer other-return-column no-cfa cie-version
"""
_ELFUTILS = """
    mips mips64 loongarch64
    dwarf64 address-size signed-pointer aligned-pointer leb128-pointer leb128-address
    old-augmentation negate-ra-state negate-ra-state-with-pc window-save no-cfa expression cfa-expression
    augmentation operand
"""
_SYMBOLIC = """
    x32 mips mips64 riscv32 riscv64 s390x loongarch64 sparc64
    advance-loc8 negative-offset-extended restore undefined register nested-states expression cfa-expression no-cfa
    negate-ra-state negate-ra-state-with-pc pauth-b-key memory-tagging old-augmentation version-4
    aligned-pointer aligned-address signed-pointer leb128-pointer leb128-address no-lsda
    other-return-column other-cfa-register opcode
"""
# readelf's column `ra` is also a register of RISC-V. Neither reader shows which return addresses are signed.
_READELF_FRAMES = "negate-ra-state negate-ra-state-with-pc cie-version augmentation address-encoding"
_PYELFTOOLS = "negate-ra-state cie-version augmentation-length"

READERS = {
    "readelf-sframe": KnownReader(
        "readelf_sframe", _program("readelf"), dict.fromkeys(("sframe-v2", "sframe-v3"), _READELF_SFRAME)
    ),
    # It does not know errata 1 of version 2, s390x and version 3.
    "readelf-2.44": KnownReader(
        "readelf_sframe", _program("readelf", "trixie"), {"sframe-v2": _READELF_SFRAME | {"field-relative", "s390x"}}
    ),
    "libsframe": KnownReader(
        "libsframe", _libsframe, dict.fromkeys(("sframe-v2", "sframe-v3"), _LIBSFRAME), valid_only=True, raw=True
    ),
    "llvm-sframe": KnownReader(
        "llvm_sframe",
        _program("llvm-readobj-22", "sid-llvm"),
        {"sframe-v2": names("s390x auxiliary-header gaps fre-len freoff")},
    ),
    "llvm-lines": KnownReader(
        "llvm_lines",
        _program("llvm-dwarfdump-22", "sid-llvm"),
        dict.fromkeys(LINES, names("wide-column short-opcode-base")),
        valid_only=True,
    ),
    "readelf-frames": KnownReader(
        "readelf_frames",
        _program("readelf"),
        {
            form: _of_frames(form, readelf_cannot("." + form.replace("-", "_"), "riscv64"), _READELF_FRAMES)
            for form in FRAMES
        },
    ),
    "pyelftools": KnownReader(
        "pyelftools_frames", tuple, {form: _of_frames(form, PYELFTOOLS_CANNOT, _PYELFTOOLS) for form in FRAMES}
    ),
    # Addresses of ELF32 are not reduced modulo 2^32: those of pcrel, udata4 neither.
    "elfutils": KnownReader(
        "libdw_frames", lambda: ["libdw.so.1"], _frames(_ELFUTILS, "x86 x32 arm ppc riscv32", "high-address")
    ),
    "symbolic": KnownReader("symbolic_frames", tuple, _frames(_SYMBOLIC)),
    "llvm-frames": KnownReader(
        "llvm_frames",
        _program("llvm-dwarfdump-22", "sid-llvm"),
        _frames(_LLVM_FRAMES, "", "cie-after-fde augmented-debug-frame"),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.known_faults", description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("format", help="as of unwindkit conform")
    parser.add_argument("shown", nargs="?", metavar="FEATURE", help="a feature or fault that it cannot read")
    parser.add_argument("--count", type=int, default=400, help="cases")
    options = parser.parse_args()
    reader = READERS[options.reader]
    if options.format not in reader.cannot:
        parser.error(f"{options.reader} reads {', '.join(reader.cannot)}")
    result = reader.ask(options.format, options.count, options.shown, shrinks=SHRINKS)
    sys.stdout.write(f"{report_text(result)}\n")
    return int(bool(result.failures))


if __name__ == "__main__":
    raise SystemExit(main())
