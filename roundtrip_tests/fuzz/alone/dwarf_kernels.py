"""Kernels of debugging information alone: contributions, names, macros, abbreviations, entries, roots, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters.debug_info.attributes import ABBREVIATION_SIZE, ATTRIBUTE_SIZE
from unwindkit.converters.dwarf.units import OVERLAPS
from unwindkit.converters.kernels.dwarf.protocol import Role
from unwindkit.converters.kernels.shared.protocol import Storage

from .contract import Rule, ascending, between, bounds, index, one_of, put, rule, starts, within
from .given import Array, Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files
from .readers import reader_of, reader_rules, reader_values

# Entries may nest so deep; it is less than of callers, so that some nest deeper.
DEPTH = 32
ENTRIES = ("debug-info", "debug-abbrev", "elf-debug-info", "libraries")
SIZES = ("address_size", "offset_size", "ref_size")


def _contributions(kernels: Any, given: Given) -> Ran:
    """As `scan_sets`."""
    done, fault, columns = 0, 0, [np.zeros(0, np.int64)] * 3
    for _ in ("count", "fill"):
        reader = reader_of(kernels, given)
        arguments = (number(given, "padding"), *(one.data for one in columns))
        done, fault = kernels.dwarf.contributions.scan(reader, *arguments), reader.fault
        if fault:
            break
        columns = [np.zeros(done, np.int64) for _ in range(3)] if len(columns[0]) != done else columns
    return Ran(fault, (done,), tuple(columns))


def _names(kernels: Any, given: Given) -> Ran:
    """As `read_pubnames`."""
    sets, count, done, fault = len(array(given, "sets.body")), 0, 0, 0
    columns: tuple[Array, ...] = ()
    for _ in ("count", "fill"):
        first, names_end = np.zeros(sets + 1, np.int64), np.zeros(sets, np.int64)
        is_terminated, reader = np.zeros(sets, np.uint8), reader_of(kernels, given)
        of_names = tuple(np.zeros(count, kind) for kind in (np.uint64, np.uint8, np.int64, np.int64))
        columns = (first, names_end, is_terminated, *of_names)
        given_sets = views_of(given, "sets.body", "sets.end", "sets.offset_size")
        by_set = kernels.dwarf.contributions.Sets(*given_sets, *(one.data for one in columns[:3]))
        by_name = kernels.dwarf.contributions.Names(*(one.data for one in of_names))
        done = kernels.dwarf.contributions.read_names(reader, number(given, "has_attributes"), by_set, by_name)
        count, fault = by_name.count, reader.fault
        if fault:
            break
    return Ran(fault, (done, count), columns)


OPERANDS = ("operands.kinds", "operands.storages", "operands.forms")


def _macros(kernels: Any, given: Given) -> Ran:
    """As `read_macros`."""
    units = count = fault = done = 0
    columns: list[Array] = []
    for _ in ("count", "fill"):
        reader, described = reader_of(kernels, given), np.full((256, 2), -1, np.int64)
        kinds: tuple[Any, ...] = (np.int64, np.uint16, np.uint8, np.uint64, np.int64, np.int64)
        of_units = [np.zeros(units, kind) for kind in kinds]
        kinds = (np.int64, np.uint8, np.uint64, np.uint64, np.int64, np.int64)
        of_entries = [np.zeros(count, kind) for kind in kinds]
        operands = kernels.dwarf.macros.Operands(*views_of(given, *OPERANDS), described.data)
        by_unit = kernels.dwarf.macros.Units(*(one.data for one in of_units))
        by_entry = kernels.dwarf.macros.Entries(*(one.data for one in of_entries))
        done = kernels.dwarf.macros.scan(reader, operands, by_unit, by_entry)
        units, count, fault, columns = by_unit.count, by_entry.count, reader.fault, [*of_units, *of_entries]
        if fault:
            break
    return Ran(fault, (done, units, count), tuple(columns))


# --- abbreviations and entries ----------------------------------------------------------------------------------------

COLUMNS = ("code", "tag", "has_children", "size", "begin", "end")
ATTRIBUTES = ("attribute", "form", "storage", "implicit")
STORAGES = [*range(17), *(int(one) for one in Storage if one != Storage.BLOCK), *range(64, 69)]


def _abbreviations(kernels: Any, given: Given) -> Ran:
    """As `_decode` of the attributes, with little space, so that it can be too little."""
    reader, tables = reader_of(kernels, given), len(array(given, "tables.offset"))
    limit = OVERLAPS * len(array(given, "reader.data"))
    rows, attributes = limit // ABBREVIATION_SIZE + 1, limit // ATTRIBUTE_SIZE + 1
    first = np.zeros(tables + 1, np.int64)
    kinds = (np.uint64, np.uint16, np.uint8, np.int32, np.int64, np.int64)
    columns = [np.zeros(rows, kind) for kind in kinds]
    columns += [np.zeros(attributes, kind) for kind in (np.uint8, np.uint32, np.uint8, np.uint64)]
    found = kernels.dwarf.abbreviations.Abbreviations(first.data, *(one.data for one in columns))
    arguments = views_of(given, *(f"tables.{name}" for name in ("offset", *SIZES, "storages", "attributes")))
    done = kernels.dwarf.abbreviations.decode(reader, kernels.dwarf.abbreviations.Tables(*arguments), found)
    cut = [one[: found.count] for one in columns[:6]] + [one[: found.attribute_count] for one in columns[6:]]
    return Ran(reader.fault, (done, reader.offset, found.count, found.attribute_count), (first, *cut))


def _attribute_names(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.abbreviations.{name}" for name in ("first", *COLUMNS, *ATTRIBUTES))


def _attributes(kernels: Any, given: Given, prefix: str) -> Any:
    abbreviations = kernels.dwarf.abbreviations.Abbreviations(*views_of(given, *_attribute_names(prefix)))
    return kernels.dwarf.entries.Attributes(abbreviations, *views_of(given, f"{prefix}.role", f"{prefix}.storages"))


def _attribute_rules(prefix: str, wanted: str) -> tuple[Rule, ...]:
    """Decoded abbreviations: their attributes are there, storages and numbers of attributes are known ones. A size of
    -1 depends on the entry."""
    here = f"{prefix}.abbreviations"
    return (
        bounds(f"{here}.begin", f"{here}.end", f"{here}.attribute"),
        starts(f"{here}.first", f"{here}.code"),
        between(f"{here}.size", -1, 1 << 25),
        one_of(f"{here}.storage", *STORAGES),
        index(f"{here}.attribute", wanted),
        between(f"{prefix}.role", 0, max(Role)),
    )


UNITS = ("place", "end", "table", "offset_size")


def _unit_rules(prefix: str, data: str, first: str) -> tuple[Rule, ...]:
    def limit(given: Given) -> None:
        found = array(given, f"{prefix}.table")
        put(given, f"{prefix}.table", np.clip(found, 0, max(0, len(array(given, first)) - 2)))

    return (
        bounds(f"{prefix}.place", f"{prefix}.end", data),
        one_of(f"{prefix}.offset_size", 4, 8),
        rule((f"{prefix}.table", f"#{first}"), (f"{prefix}.table",), limit),
    )


def _rows(kernels: Any, count: int, wanted: Array, offset: Array | None = None) -> tuple[Any, list[Array]]:
    """Space for entries, as `Rows.of`."""
    width = int(wanted.max(initial=0))
    kinds = (np.int64, np.uint16, np.uint32, np.int64, np.int64)
    columns = [np.zeros(count, kind) for kind in kinds]
    if offset is not None:
        columns[0] = offset.copy()
    columns += [np.zeros((count, width), np.uint32), np.zeros((count, width), np.uint64)]
    return kernels.dwarf.entries.Entries(*(one.data for one in columns), wanted.data), columns


def _walk(kernels: Any, given: Given) -> Ran:
    """As `EntryWalk.rows`, from a small capacity on, with a shallower stack."""
    reader, count = reader_of(kernels, given), len(array(given, "found.units.place"))
    units = kernels.dwarf.entries.Units(*views_of(given, *(f"found.units.{name}" for name in UNITS)))
    attributes, wanted = _attributes(kernels, given, "found.attributes"), array(given, "found.entries.wanted")
    stack, capacity, unit, parts, faults = np.zeros((DEPTH, 3), np.int64), 4, 0, [], [0]
    while unit < count and capacity <= 1 << 12:
        entries, columns = _rows(kernels, capacity, wanted)
        of_scopes = [np.zeros(capacity, np.int64) for _ in range(3)]
        scopes = kernels.dwarf.entries.Scopes(*(one.data for one in of_scopes))
        walk = kernels.dwarf.entries.Walk(units, attributes, entries, scopes, stack.data)
        first = unit
        unit = kernels.dwarf.entries.walk(reader, walk, unit, count)
        while reader.fault:
            faults.append(reader.fault)
            reader.fault = 0
            unit = kernels.dwarf.entries.walk(reader, walk, unit + 1, count)
        if entries.is_full and unit == first:
            capacity *= 2
            continue
        # The form of an absent attribute is 0, its number is not set.
        parts += [one[: entries.count] for one in columns[:6]] + [one[: scopes.count] for one in of_scopes]
    return Ran(faults[-1], (unit, len(faults), len(parts)), tuple(parts))


def _read_at(kernels: Any, given: Given) -> Ran:
    reader, wanted = reader_of(kernels, given), array(given, "entries.wanted")
    units = kernels.dwarf.entries.Units(*views_of(given, *(f"units.{name}" for name in UNITS)))
    entries, columns = _rows(kernels, len(array(given, "unit")), wanted, array(given, "entries.offset"))
    attributes = _attributes(kernels, given, "attributes")
    done = kernels.dwarf.entries.read_at(reader, units, attributes, entries, array(given, "unit").data)
    return Ran(reader.fault, (done, reader.offset), tuple(columns))


# --- root entries -----------------------------------------------------------------------------------------------------


def _codes(kernels: Any, given: Given) -> Ran:
    reader, place = reader_of(kernels, given), array(given, "place").copy()
    code = np.zeros(len(place), np.uint64)
    done = kernels.dwarf.unit_roots.read_codes(reader, place.data, array(given, "end").data, code.data)
    return Ran(reader.fault, (done,), (place, code))


def _find_abbreviations(kernels: Any, given: Given) -> Ran:
    reader, count = reader_of(kernels, given), len(array(given, "wanted.code"))
    tag, attributes = np.zeros(count, np.uint64), np.full(count, -1, np.int64)
    codes = views_of(given, "wanted.first", "wanted.code")
    wanted = kernels.dwarf.unit_roots.Wanted(*codes, tag.data, attributes.data)
    budget = OVERLAPS * len(array(given, "reader.data"))
    done = kernels.dwarf.unit_roots.find_abbreviations(reader, array(given, "offset").data, wanted, budget)
    return Ran(reader.fault, (done, reader.offset), (tag, attributes))


ROOTS = tuple(f"roots.{name}" for name in ("place", "end", "attributes", *SIZES))


def _roots(kernels: Any, given: Given) -> Ran:
    info, abbreviation = reader_of(kernels, given, "info"), reader_of(kernels, given, "abbreviation")
    column = array(given, "values.column")
    shape = len(array(given, "roots.place")), int(column.max())
    columns = (np.zeros(shape, np.uint64), np.zeros(shape, np.uint64), np.zeros(shape, np.int64))
    roots = kernels.dwarf.unit_roots.Roots(*views_of(given, *ROOTS))
    tables = views_of(given, "values.storages", "values.column")
    values = kernels.dwarf.unit_roots.Values(*tables, *(one.data for one in columns))
    done = kernels.dwarf.unit_roots.read_roots(info, abbreviation, roots, values)
    return Ran(info.fault or abbreviation.fault, (done, info.offset, abbreviation.offset), columns)


# --- ranges -----------------------------------------------------------------------------------------------------------

LISTS = tuple(f"lists.{name}" for name in ("place", "base", "address_size", "addresses"))


def _range_lists(kernels: Any, given: Given) -> Ran:
    """As `_listed`."""
    addresses, space, faults = reader_of(kernels, given, "addresses"), 0, [0]
    lists = kernels.dwarf.range_lists.Lists(*views_of(given, *LISTS), number(given, "lists.is_new"))
    count, done = len(array(given, "lists.place")), 0
    columns: list[Array] = []
    limit = OVERLAPS * (len(array(given, "reader.data")) + count)
    for _ in ("count", "fill"):
        reader, done = reader_of(kernels, given), 0
        columns = [np.zeros(space, kind) for kind in (np.int64, np.uint64, np.uint64)]
        filled = kernels.dwarf.range_lists.Ranges(*(one.data for one in columns), limit)
        while (done := kernels.dwarf.range_lists.read(reader, addresses, lists, filled, done)) < count:
            faults.append(reader.fault)
            reader.fault = addresses.fault = 0
            done += 1
        space = filled.count
    return Ran(faults[-1], (len(faults), space), tuple(columns))


def _join(kernels: Any, given: Given) -> Ran:
    """The ranges of `own`, of each entry in the order of their starts, as `disjoint` joins them."""
    owner = np.repeat(np.arange(len(array(given, "own")) - 1), np.diff(array(given, "own")))
    order = np.lexsort((array(given, "start"), owner))
    start = array(given, "start")[order]
    columns = owner, start, np.maximum(array(given, "end")[order], start)
    count = kernels.dwarf.entry_ranges.join(*(one.data for one in columns))
    return Ran(0, (count,), tuple(one[:count] for one in columns))


def _limit_own(given: Given) -> None:
    """The ranges of an entry are disjoint and ascend; a parent comes before what it contains (-1: none)."""
    own, start, end = array(given, "own"), array(given, "start").copy(), array(given, "end").copy()
    for first, last in zip(own[:-1].tolist(), own[1:].tolist(), strict=True):
        order = np.argsort(start[first:last], kind="stable")
        start[first:last], end[first:last] = start[first:last][order], end[first:last][order]
        following = np.append(start[first + 1 : last], np.uint64((1 << 64) - 1))[: last - first]
        end[first:last] = np.clip(end[first:last], start[first:last], following)
    put(given, "start", start)
    put(given, "end", end)
    parent = array(given, "parent")
    put(given, "parent", np.clip(parent, -1, np.arange(len(parent)) - 1))


def _clip(kernels: Any, given: Given) -> Ran:
    """As `_clip_to_parents`, from little space on."""
    entries, space, count = len(array(given, "parent")), 1, -1
    columns: list[Array] = []
    first, depth = np.zeros(entries + 1, np.int64), np.zeros(entries, np.uint16)
    is_cut = np.zeros(entries, np.uint8)
    while count < 0 and space < 1 << 14:
        columns = [np.zeros(space, kind) for kind in (np.int64, np.uint64, np.uint64)]
        arrays = (*columns, first, depth, is_cut)
        filled = kernels.dwarf.entry_ranges.Clipped(*(one.data for one in arrays))
        count = kernels.dwarf.entry_ranges.clip(*views_of(given, "parent", "own", "start", "end"), filled)
        space *= 2
    return Ran(0, (max(count, 0),), (*(one[: max(count, 0)] for one in columns), depth, is_cut))


def _code(*names: str) -> tuple[str, ...]:
    return kernel_files(*(f"dwarf/{name}" for name in names), "shared/values", "shared/reads")


DWARF_KERNELS = (
    Kernel(
        "kernel-contributions",
        "dwarf.contributions.scan",
        ("aranges", "names", *ENTRIES),
        _contributions,
        _code("contributions"),
        data=("reader.data",),
        values=(*reader_values(), "padding"),
        fixed=("reader.sizes",),
        rules=(*reader_rules(), within("padding", "reader.data")),
    ),
    Kernel(
        "kernel-names",
        "dwarf.contributions.read_names",
        ("names",),
        _names,
        _code("contributions"),
        data=("reader.data",),
        values=(*reader_values(), "has_attributes", "sets.body", "sets.end", "sets.offset_size"),
        fixed=("reader.sizes",),
        groups=(("sets.body", "sets.end", "sets.offset_size"),),
        rules=(
            *reader_rules(),
            between("has_attributes", 0, 1),
            bounds("sets.body", "sets.end", "reader.data"),
            one_of("sets.offset_size", 4, 8),
        ),
    ),
    Kernel(
        "kernel-macros",
        "dwarf.macros.scan",
        ("macros",),
        _macros,
        _code("macros"),
        data=("reader.data",),
        values=reader_values(),
        fixed=("reader.sizes", *OPERANDS),
        rules=reader_rules(),
    ),
    Kernel(
        "kernel-abbreviations",
        "dwarf.abbreviations.decode",
        ENTRIES,
        _abbreviations,
        _code("abbreviations"),
        data=("reader.data",),
        values=(*reader_values(), "tables.offset", *(f"tables.{name}" for name in SIZES)),
        fixed=("reader.sizes", "tables.storages", "tables.attributes"),
        groups=(tuple(f"tables.{name}" for name in ("offset", *SIZES)),),
        rules=(
            *reader_rules(),
            within("tables.offset", "reader.data"),
            *(one_of(f"tables.{name}", 1, 2, 4, 8) for name in SIZES),
        ),
    ),
    Kernel(
        "kernel-entries",
        "dwarf.entries.walk",
        ENTRIES,
        _walk,
        _code("entries", "abbreviations"),
        data=("reader.data",),
        values=(
            *(f"found.units.{name}" for name in UNITS),
            *_attribute_names("found.attributes"),
            "found.attributes.role",
            "reader.big",
        ),
        fixed=("reader.address", "reader.bases", "reader.sizes", "found.attributes.storages", "found.entries.wanted"),
        groups=(tuple(f"found.units.{name}" for name in UNITS),),
        rules=(
            *reader_rules(),
            *_attribute_rules("found.attributes", "found.entries.wanted"),
            *_unit_rules("found.units", "reader.data", "found.attributes.abbreviations.first"),
        ),
    ),
    Kernel(
        "kernel-entries-at",
        "dwarf.entries.read_at",
        ENTRIES,
        _read_at,
        _code("entries", "abbreviations"),
        data=("reader.data",),
        values=(
            *(f"units.{name}" for name in UNITS),
            *_attribute_names("attributes"),
            "attributes.role",
            "entries.offset",
            "unit",
            "reader.big",
        ),
        fixed=("reader.address", "reader.bases", "reader.sizes", "attributes.storages", "entries.wanted"),
        groups=(("entries.offset", "unit"),),
        rules=(
            *reader_rules(),
            *_attribute_rules("attributes", "entries.wanted"),
            *_unit_rules("units", "reader.data", "attributes.abbreviations.first"),
            index("unit", "units.place"),
        ),
    ),
    Kernel(
        "kernel-root-codes",
        "dwarf.unit_roots.read_codes",
        ENTRIES,
        _codes,
        _code("unit_roots"),
        data=("reader.data",),
        values=(*reader_values(), "place", "end"),
        fixed=("reader.sizes",),
        groups=(("place", "end"),),
        rules=(*reader_rules(), bounds("place", "end", "reader.data")),
    ),
    Kernel(
        "kernel-root-abbreviations",
        "dwarf.unit_roots.find_abbreviations",
        ENTRIES,
        _find_abbreviations,
        _code("unit_roots"),
        data=("reader.data",),
        values=(*reader_values(), "offset", "wanted.first", "wanted.code"),
        fixed=("reader.sizes",),
        groups=(("wanted.code",), ("offset",)),
        rules=(
            *reader_rules(),
            within("offset", "reader.data"),
            ascending("wanted.code"),
            starts("wanted.first", "wanted.code", per="offset"),
        ),
        # With one table all its codes ascend; with several, those of each do, which `ascending` would mix.
        chosen=lambda given: len(array(given, "offset")) == 1,
    ),
    Kernel(
        "kernel-root-values",
        "dwarf.unit_roots.read_roots",
        ENTRIES,
        _roots,
        _code("unit_roots"),
        data=("info.data", "abbreviation.data"),
        values=(*ROOTS, "info.big", "abbreviation.big"),
        fixed=(
            *(f"{prefix}.{name}" for prefix in ("info", "abbreviation") for name in ("address", "bases", "sizes")),
            "values.storages",
            "values.column",
        ),
        groups=(ROOTS,),
        rules=(
            *reader_rules("info"),
            *reader_rules("abbreviation"),
            bounds("roots.place", "roots.end", "info.data"),
            rule(
                ("roots.attributes", "#abbreviation.data"),
                ("roots.attributes",),
                lambda given: put(
                    given,
                    "roots.attributes",
                    np.clip(array(given, "roots.attributes"), -1, len(array(given, "abbreviation.data"))),
                ),
            ),
            *(one_of(f"roots.{name}", 1, 2, 4, 8) for name in SIZES),
        ),
    ),
    Kernel(
        "kernel-range-lists",
        "dwarf.range_lists.read",
        ("range-lists", *ENTRIES),
        _range_lists,
        _code("range_lists"),
        data=("reader.data", "addresses.data"),
        values=(*LISTS, "lists.is_new", "reader.big", "addresses.big"),
        fixed=tuple(f"{prefix}.{name}" for prefix in ("reader", "addresses") for name in ("address", "bases", "sizes")),
        groups=(LISTS,),
        rules=(
            *reader_rules(),
            *reader_rules("addresses"),
            between("lists.is_new", 0, 1),
            within("lists.place", "reader.data"),
            one_of("lists.address_size", 1, 2, 4, 8),
            between("lists.addresses", -1, (1 << 63) - 1),
        ),
    ),
    Kernel(
        "kernel-range-join",
        "dwarf.entry_ranges.clip",
        ("range-lists", *ENTRIES),
        _join,
        kernel_files("dwarf/entry_ranges"),
        values=("own", "start", "end"),
        groups=(("start", "end"), ("own",)),
        rules=(starts("own", "start"),),
    ),
    Kernel(
        "kernel-range-clip",
        "dwarf.entry_ranges.clip",
        ("range-lists", *ENTRIES),
        _clip,
        kernel_files("dwarf/entry_ranges"),
        values=("parent", "own", "start", "end"),
        groups=(("start", "end"), ("parent",)),
        rules=(
            starts("own", "start", per="parent"),
            rule(("parent", "own", "start", "end"), ("parent", "start", "end"), _limit_own),
        ),
    ),
)
