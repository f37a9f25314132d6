"""The names of code in a file, for messages: function symbols by their ranges, sections elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress

from ...schemas.section import ParseError
from ..elf.function_symbols import FunctionSymbols, function_symbols
from ..elf.image import ElfImage


class CodeNames:
    """Names by address; malformed symbol tables give none."""

    def __init__(self, image: ElfImage | None) -> None:
        self.sections = () if image is None else image.sections
        self.symbols = FunctionSymbols.empty()
        if image is not None:
            with suppress(ParseError):
                self.symbols = function_symbols(image)
        self.starts = self.symbols.address.tolist()

    def at(self, address: int) -> tuple[str, int]:
        """The symbol or section that contains an address, "" for none, and the offset in it."""
        index = bisect_right(self.starts, address) - 1
        if index >= 0 and address - self.starts[index] < max(int(self.symbols.size[index]), 1):
            return self.symbols.name[index], address - self.starts[index]
        for one in self.sections:
            if one.is_code and one.address <= address < one.end_address:
                return one.name, address - one.address
        return "", address

    def text(self, address: int) -> str:
        """As `name+0x10`."""
        name, offset = self.at(address)
        return name + (f"+{offset:#x}" if offset and name else "")
