"""Where callers point in a file: addresses, names of functions, and offsets in the sections of a relocatable file.

Strategy: a relocatable file is laid out first, so that each place has one address. A number is then an offset in every
section of code that is long enough, since all of them start at 0; `SECTION+OFFSET` is in the sections of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from ...schemas.data_classes import dataclass
from ..elf.image import SYMBOL_FILE, ElfImage, ElfSection
from ..elf.relocation import LaidOut, place_addresses
from ..elf.symbols import find_names, numbers_and_names, refuse_unknown


@dataclass(frozen=True, slots=True)
class Place:
    """One place that the request of index `asked` means: the `address` in the file as it is laid out; `pc` is that
    address, or the offset in the `section` of a relocatable file. `section` is "" for any other file, `name` the
    function's if it was asked for by name.
    """

    asked: int
    address: int
    pc: int
    section: str
    name: str | None


def find_places(laid: LaidOut, requests: Iterable[int | str]) -> list[Place]:
    """The places that are meant, in the order of the requests; none for what the file does not have. Raises ParseError
    for a malformed symbol table."""
    wanted, sections = numbers_and_names(requests), code_sections(laid)
    places: dict[int, list[Place]] = {}
    for index, one in enumerate(wanted):
        if isinstance(one, int):
            places[index] = _at_number(laid, sections, index, one)
        elif found := _in_named_sections(sections, index, one):
            places[index] = found
    names = [one for index, one in enumerate(wanted) if isinstance(one, str) and index not in places]
    by_name = _addresses_of_names(laid.image, list(dict.fromkeys(names))) if names else {}
    for index, one in enumerate(wanted):
        if isinstance(one, str) and index not in places:
            places[index] = _of_functions(laid, sections, index, one, by_name[one])
    return [place for index in range(len(wanted)) for place in places[index]]


def refuse_missing(requests: Iterable[int | str], places: Iterable[Place]) -> None:
    """Raise ParseError for names that are nowhere."""
    found = {one.asked for one in places}
    wanted = enumerate(numbers_and_names(requests))
    refuse_unknown(one for index, one in wanted if isinstance(one, str) and index not in found)


def code_sections(laid: LaidOut) -> dict[str, ElfSection]:
    """The sections of code of a relocatable file by name, with the index if others have the same name: `.text[5]`."""
    if not laid.is_relocatable:
        return {}
    count = Counter(one.name for one in laid.image.sections)
    return {
        one.name if count[one.name] == 1 else f"{one.name}[{one.index}]": one
        for one in laid.image.sections
        if one.is_code
    }


def _at_number(laid: LaidOut, sections: dict[str, ElfSection], asked: int, number: int) -> list[Place]:
    """An address, or in a relocatable file the offset in each section of code."""
    if not laid.is_relocatable:
        return [Place(asked, number, number, "", None)]
    return [
        Place(asked, one.address + number, number, title, None)
        for title, one in sections.items()
        if 0 <= number < one.size
    ]


def _in_named_sections(sections: dict[str, ElfSection], asked: int, text: str) -> list[Place]:
    """The places that a text of the form SECTION+OFFSET means; none if the file has no such section of code."""
    name, plus, offset = text.rpartition("+")
    try:
        number = int(offset, 0) if plus else -1
    except ValueError:
        number = -1
    return [
        Place(asked, one.address + number, number, title, None)
        for title, one in sections.items()
        if name in (one.name, title) and 0 <= number < one.size
    ]


def _of_functions(
    laid: LaidOut, sections: dict[str, ElfSection], asked: int, name: str, addresses: tuple[int, ...]
) -> list[Place]:
    """The places of the functions of one name."""
    if not laid.is_relocatable:
        return [Place(asked, address, address, "", name) for address in addresses]
    titles = {one.index: title for title, one in sections.items()}
    index, offset, _ = place_addresses(laid, np.array(addresses, np.uint64))
    return [
        Place(asked, address, pc, titles.get(section, laid.image.sections[section].name), name)
        for address, section, pc in zip(addresses, index.tolist(), offset.tolist(), strict=True)
    ]


def _addresses_of_names(image: ElfImage, names: list[str]) -> dict[str, tuple[int, ...]]:
    if image.type != SYMBOL_FILE:
        return find_names(image, names)
    from ..breakpad.records import functions_of_names

    return functions_of_names(bytes(image.data), names, image.load_address)
