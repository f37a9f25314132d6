"""The first records of a symbol file: MODULE and INFO CODE_ID."""

from __future__ import annotations

import struct

import numpy as np

from ...schemas.breakpad.records import InfoCodeId, Module
from ...schemas.section import BuildError
from ..elf.identity import build_id, module_name
from ..elf.image import ElfImage

GUID_SIZE = 16
# Breakpad hashes the first page of the code of a file without a build id.
HASHED_CODE = 4096
AGE = "0"


def module_of(image: ElfImage) -> tuple[Module, InfoCodeId | None]:
    """The first records of a symbol file: MODULE, and INFO CODE_ID if there is a build id.

    The module's id is a GUID and the age 0. The GUID is the build id's first 16 bytes, its first three numbers written
    most significant byte first; without a build id it is a hash of `.text`. Raises ParseError, and BuildError if
    Breakpad has no name for the architecture.
    """
    found = build_id(image)
    guid = guid_of(found or _code_hash(image))
    module = Module("Linux", _architecture(image), guid + AGE, module_name(image))
    return module, InfoCodeId(found.hex().upper(), None) if found else None


def guid_of(identifier: bytes) -> str:
    """The GUID in a module's id, of a build id."""
    padded = identifier[:GUID_SIZE].ljust(GUID_SIZE, b"\0")
    first, second, third = struct.unpack("<IHH", padded[:8])
    return f"{first:08X}{second:04X}{third:04X}{padded[8:].hex().upper()}"


def _architecture(image: ElfImage) -> str:
    """Breakpad's name for the file's architecture."""
    architecture = image.architecture
    if architecture.breakpad_module is None:
        raise BuildError("MODULE", None, "architecture", f"Breakpad has no name for {architecture.name}")
    return architecture.breakpad_module


def _code_hash(image: ElfImage) -> bytes:
    """The exclusive or of all 16-byte blocks in the first page of `.text`."""
    found = [header for header in image.named(".text") if not header.is_nobits]
    code = bytes(image.contents(found[0]).data[:HASHED_CODE]) if found else b""
    lanes = np.frombuffer(code.ljust(-(-len(code) // GUID_SIZE) * GUID_SIZE, b"\0"), np.uint8)
    return bytes(np.bitwise_xor.reduce(lanes.reshape(-1, GUID_SIZE), axis=0))
