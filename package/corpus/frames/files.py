"""ELF files with call frame information, and `.eh_frame_hdr` sections."""

from __future__ import annotations

from ...converters.arch.table import architecture_named
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME
from ...schemas.data_classes import dataclass
from ...schemas.pointers import DW_EH_PE, PointerBases
from ...schemas.section import ByteOrder
from ..byte_stream import ByteStream
from ..choices import Draw, sampled_from
from ..elf import ElfSection, build_elf
from .call_frames import CallFrames, FrameSection, draw_call_frames
from .features import Feature
from .regions import MAX_SECTION, MAX_SHORT_CODE, Region


@dataclass(frozen=True, slots=True)
class ElfWithFrames:
    """An ELF file and the call frame information in it; `has_header`: it has an `.eh_frame_hdr`."""

    data: bytes
    frames: tuple[CallFrames, ...]
    has_header: bool


_CODE = 0x401000
_HDR = 0x20000  # of the .eh_frame_hdr after the code
_PCREL, _DATAREL = DW_EH_PE.pcrel | DW_EH_PE.sdata4, DW_EH_PE.datarel | DW_EH_PE.sdata4
_HEADERS = sampled_from([False, True])
_CHOICES = sampled_from([(EH_FRAME,), (EH_FRAME,), (DEBUG_FRAME,), (EH_FRAME, DEBUG_FRAME)])
# A file without DT_PLTGOT does not say what these are relative to.
_BASED = frozenset({Feature.BASED_ADDRESS, Feature.BASED_POINTER})


def frame_region(address: int) -> Region:
    """Where functions and a section at `address`, 0 for `.debug_frame`, are in files."""
    return Region(address, _CODE, _CODE + _HDR + MAX_SECTION, PointerBases(), is_short=True)


def draw_elf_with_frames(
    draw: Draw, arch: str, byte_order: ByteOrder | None, without: frozenset[Feature]
) -> ElfWithFrames:
    """A shared object with `.text` and an `.eh_frame` (some with `.eh_frame_hdr`), a `.debug_frame`, or both."""
    architecture = architecture_named(arch, "ELF")
    order = byte_order or architecture.byte_order
    left_out = without | _BASED
    frames = []
    for dialect in draw(_CHOICES):
        region = frame_region(_CODE + MAX_SHORT_CODE if dialect is EH_FRAME else 0)
        name: FrameSection = ".eh_frame" if dialect is EH_FRAME else ".debug_frame"
        frames.append(draw_call_frames(draw, arch, name, order, left_out, region))
    size = max((one.start + one.size - _CODE for each in frames for one in each.functions), default=0)
    sections = [ElfSection(".text", bytes(size), _CODE, is_code=True)]
    sections += [ElfSection(one.name, one.data, one.address or None) for one in frames]
    has_header = frames[0].name == EH_FRAME.name and draw(_HEADERS)
    if has_header:
        sections.append(ElfSection(".eh_frame_hdr", build_eh_frame_hdr(frames[0], _CODE + _HDR), _CODE + _HDR))
    return ElfWithFrames(build_elf(architecture, order, sections), tuple(frames), has_header)


def build_eh_frame_hdr(frames: CallFrames, address: int) -> bytes:
    """An `.eh_frame_hdr` at `address` with the usual encodings (LSB Core 10.6.2)."""
    stream = ByteStream(frames.byte_order, frames.address_size, address)
    bases = PointerBases(data=address)
    stream.data += bytes([1, _PCREL, DW_EH_PE.udata4, _DATAREL])
    stream.put_pointer(frames.address, _PCREL)
    stream.put_integer(len(frames.functions), 4)
    for function in sorted(frames.functions, key=lambda one: one.start):
        stream.put_pointer(function.start, _DATAREL, bases)
        stream.put_pointer(frames.address + function.origin, _DATAREL, bases)
    return bytes(stream.data)
