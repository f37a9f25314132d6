"""Kernels of SFrame alone: FREs read, found, projected, split, encoded, shared and merged; functions cut to pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters import rules as table_rules
from unwindkit.converters.arrays import hash_slots
from unwindkit.converters.kernels.sframe.protocol import PaddingCode
from unwindkit.converters.sframe.fres import MAX_FLEX_WORDS
from unwindkit.converters.sframe.write_fres import fre_types
from unwindkit.schemas.sframe import SFRAME_FRE_OFFSET

from .cfi_kernels import ROWS, RULES
from .contract import ascending, between, bounds, one_of, put, rule, slices, starts
from .given import Array, Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files
from .readers import reader_of, reader_rules, reader_values

READERS = ("sframe-v1", "sframe-v2", "sframe-v3")
WRITERS = ("conversions", *READERS, "libraries")
BLOCKS = tuple(f"blocks.{name}" for name in ("offset", "count", "start_size", "most"))
ROW_NAMES = tuple(f"rows.{name}" for name in ROWS)
RULE_NAMES = tuple(f"rules.{name}" for name in RULES)
ABI = (
    *("sp", "fp", "ra", "fixed_ra", "sp_value", "cfa_adjustment", "cfa_alignment"),
    *("sp_is_saved", "has_register_slots", "fp_alone", "marks_outermost"),
)
ABI_NAMES = tuple(f"abi.{name}" for name in ABI)
FRE_ROWS = tuple(f"rows.{name}" for name in ("offset", "reason", "info", "words"))
# FREs that a test reads: callers limit them in proportion to the section.
MOST_FRES = 2000


def _limit_counts(given: Given) -> None:
    """The FREs of all blocks are limited."""
    left, counts = MOST_FRES, []
    for one in array(given, "blocks.count").tolist():
        counts.append(min(max(one, 0), left))
        left -= counts[-1]
    put(given, "blocks.count", np.array(counts, np.int64))


BLOCK_RULES = (
    between("blocks.offset", 0, 1 << 33),
    one_of("blocks.start_size", 1, 2, 4),
    between("blocks.most", 0, 15),
    rule(["blocks.count"], ["blocks.count"], _limit_counts),
)


def _fres(kernels: Any, given: Given, count: int) -> tuple[Any, tuple[Array, ...]]:
    width = array(given, "fres.words").shape[1]
    arrays = np.zeros(count, np.uint64), np.zeros(count, np.uint8), np.zeros((count, width), np.int32)
    return kernels.sframe.fres.Fres(*(one.data for one in arrays)), arrays


def _decode(kernels: Any, given: Given) -> Ran:
    reader, count = reader_of(kernels, given), int(array(given, "blocks.count").sum())
    fres, arrays = _fres(kernels, given, count)
    blocks = kernels.sframe.fres.Blocks(*views_of(given, *BLOCKS))
    done = kernels.sframe.fres.decode(reader, number(given, "minimum"), number(given, "ascending"), blocks, fres)
    return Ran(reader.fault, (done, reader.offset, count), arrays)


def _find(kernels: Any, given: Given) -> Ran:
    reader, count = reader_of(kernels, given), len(array(given, "blocks.count"))
    fres, arrays = _fres(kernels, given, count + 1)
    found, blocks = np.zeros(count, np.uint8), kernels.sframe.fres.Blocks(*views_of(given, *BLOCKS))
    target = array(given, "target").data
    done = kernels.sframe.find_fre.find(reader, number(given, "minimum"), blocks, target, found.data, fres)
    return Ran(reader.fault, (done, int(found.sum())), (found, *(one[:-1] for one in arrays)))


# --- rows to FREs -----------------------------------------------------------------------------------------------------


def _limit_rules(given: Given, prefix: str = "rules") -> None:
    """A register is a number of 16 bits."""
    kind, value = array(given, f"{prefix}.kind"), array(given, f"{prefix}.value")
    limited = np.clip(value, 0, table_rules.MAX_REGISTER)
    put(given, f"{prefix}.value", np.where(kind == table_rules.RuleKind.REGISTER, limited, value))


def _table_rules(rows: str, rules: str) -> tuple[Any, ...]:
    most = table_rules.MAX_OFFSET
    return (
        between(f"{rows}.cfa_kind", 0, max(table_rules.CfaKind)),
        between(f"{rows}.ra_state", 0, max(table_rules.RaState)),
        between(f"{rules}.kind", 0, max(table_rules.RuleKind)),
        between(f"{rows}.cfa_offset", -most, most),
        between(f"{rules}.value", -most, most),
        slices(f"{rows}.first_rule", f"{rows}.rule_count", f"{rules}.kind"),
        rule([f"{rules}.kind", f"{rules}.value"], [f"{rules}.value"], lambda given: _limit_rules(given, rules)),
    )


def _projected(kernels: Any, count: int, width: int) -> tuple[Any, tuple[Array, ...]]:
    arrays = np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.zeros((count, width), np.int32)
    return kernels.sframe.project.Fres(*(one.data for one in arrays)), arrays


def _abi(kernels: Any, given: Given, prefix: str = "abi") -> Any:
    return kernels.sframe.project.Abi(*(number(given, f"{prefix}.{name}") for name in ABI))


def _project(kernels: Any, given: Given) -> Ran:
    fres, arrays = _projected(kernels, len(array(given, "rows.offset")), 3)
    rows = kernels.shared.rows.Rows(*views_of(given, *ROW_NAMES))
    rules = kernels.shared.rows.Rules(*views_of(given, *RULE_NAMES))
    kernels.sframe.project.project(_abi(kernels, given), rows, rules, fres)
    return Ran(0, (int((arrays[0] > 0).sum()), *np.unique(arrays[0])[:4].tolist()), arrays)


FORMS = ("kind", "base", "value")
PAIR_ROWS = tuple(f"pairs.rows.{name}" for name in ROWS)
PAIR_RULES = tuple(f"pairs.rules.{name}" for name in RULES)
CFA_FORMS = tuple(f"pairs.cfa.{name}" for name in FORMS)
RULE_FORMS = tuple(f"pairs.forms.{name}" for name in FORMS)


def _project_flex(kernels: Any, given: Given) -> Ran:
    count = len(array(given, "wanted"))
    fres, arrays = _projected(kernels, count, MAX_FLEX_WORDS)
    pairs = kernels.sframe.project.Pairs(
        _abi(kernels, given, "pairs.abi"),
        kernels.shared.rows.Rows(*views_of(given, *PAIR_ROWS)),
        kernels.shared.rows.Rules(*views_of(given, *PAIR_RULES)),
        kernels.sframe.project.Forms(*views_of(given, *CFA_FORMS)),
        kernels.sframe.project.Forms(*views_of(given, *RULE_FORMS)),
    )
    kernels.sframe.project.project_flex(pairs, array(given, "wanted").data, fres)
    return Ran(0, (int((arrays[0] > 0).sum()), *np.unique(arrays[0])[:4].tolist()), arrays)


# --- segments and blocks ----------------------------------------------------------------------------------------------


def _limit_infos(given: Given) -> None:
    """An info byte tells no more words than there are, of a size that exists."""
    info, width = array(given, "rows.info"), array(given, "rows.words").shape[1]
    count, size = np.minimum(info >> 1 & 15, width), np.minimum(info >> 5 & 3, int(SFRAME_FRE_OFFSET.SIZE_4B))
    put(given, "rows.info", info & 0x81 | count << 1 | size << 5)


SPLIT_RULES = (
    between("limit", 1, 1 << 32),
    starts("run_rows", "rows.offset"),
    rule(["rows.info"], ["rows.info"], _limit_infos),
)


def _split_into(kernels: Any, given: Given) -> tuple[Any, Any, list[Array], int]:
    """The rows, the segments, their columns, and the number of FREs, as `split_runs` has them."""
    rows, count = kernels.sframe.fres.FreRows(*views_of(given, *FRE_ROWS)), len(array(given, "rows.offset"))
    kinds = (np.uint8, np.uint64, np.int64, np.int64, np.int64)
    columns = [np.zeros(len(array(given, "run_rows")), np.int64), *(np.zeros(count, kind) for kind in kinds)]
    segments = kernels.sframe.fres.Segments(*(one.data for one in columns))
    total = kernels.sframe.fres.split(number(given, "limit"), array(given, "run_rows").data, rows, segments)
    found = int(columns[0][-1])
    cut = [columns[0], *(one[:found] for one in columns[1:5]), columns[5][:total]]
    return rows, kernels.sframe.fres.Segments(*(one.data for one in cut)), cut, total


def _split(kernels: Any, given: Given) -> Ran:
    _, _, columns, total = _split_into(kernels, given)
    return Ran(0, (total, len(columns[1])), tuple(columns))


def _block_sizes(given: Given, columns: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Of each encoded segment its number, the size of start addresses, the number of FREs, and the bytes of its own."""
    _, reason, start, fres, size, kept = columns
    which = np.flatnonzero(reason == 0)
    last = array(given, "rows.offset")[kept[fres[which] - 1]] - start[which]
    width = np.left_shift(np.uint8(1), fre_types(last)).astype(np.uint8)
    return which, width, np.diff(fres, prepend=0)[which], size[which]


def _encode(kernels: Any, given: Given) -> Ran:
    """Each encoded segment as a block, as `Blocks.encode`."""
    rows, segments, columns, _ = _split_into(kernels, given)
    which, width, count, size = _block_sizes(given, columns)
    prefix = number(given, "limit") & 4
    out = np.zeros(int((prefix + size + count * width).sum()), np.uint8)
    is_big = number(given, "limit") & 1
    kernels.sframe.fres.encode(is_big, prefix, rows, segments, which.data, width.data, out.data)
    return Ran(0, (len(out), len(which)), (out,))


def _share(kernels: Any, given: Given) -> Ran:
    """As `share_blocks`, with keys that are always the same."""
    rows, segments, columns, total = _split_into(kernels, given)
    which, width, _, _ = _block_sizes(given, columns)
    slots, words = hash_slots(len(which)), array(given, "rows.words").shape[1]
    odd = np.arange(words + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    keys = np.append(odd, np.uint64((1 << 29) + 12345))
    hashes, marks, host = np.zeros(total, np.uint32), np.zeros(len(slots), np.uint8), np.zeros(len(which), np.int64)
    arrays = (which, width.astype(np.int64), keys, hashes, slots, marks, host)
    sharing = kernels.sframe.share_blocks.Sharing(rows, segments, *(one.data for one in arrays))
    sharing.hash_segments(rows, 0, len(columns[1]))
    sharing.share(number(given, "limit") & 1)
    return Ran(0, (int((host != np.arange(len(host))).sum()),), (host, hashes))


# --- functions, gaps and groups ---------------------------------------------------------------------------------------

FUNCTIONS = tuple(f"functions.{name}" for name in ("start", "size", "run", "reason"))
SEGMENTS = tuple(f"segments.{name}" for name in ("first", "reason", "start"))


def _cut(kernels: Any, given: Given) -> Ran:
    """As `_pieces`: what has no space is counted, and another call has the space."""
    functions = kernels.sframe.pieces.Functions(*views_of(given, "functions.index", *FUNCTIONS))
    unused = np.zeros(0, np.int64).data
    columns = views_of(given, *SEGMENTS)
    segments = kernels.sframe.fres.Segments(*columns, unused, unused, unused)
    space, arrays = [len(array(given, "functions.index")), 0], []
    kinds = (np.int64, np.int64, np.uint64, np.uint64, np.uint8)
    for _ in range(2):
        arrays = [[np.zeros(size, kind) for kind in kinds] for size in space]
        filled = [kernels.sframe.pieces.Ranges(*(one.data for one in each)) for each in arrays]
        kernels.sframe.pieces.cut(functions, segments, *filled)
        space = [max(size, one.count) for size, one in zip(space, filled, strict=True)]
    return Ran(0, tuple(space), (*arrays[0], *arrays[1]))


def _limit_functions(given: Given) -> None:
    """Functions in the order of their start, some of them left out; each run has segments."""
    found, count = array(given, "functions.index"), len(array(given, "functions.start"))
    found = np.unique(np.clip(found, 0, max(0, count - 1)))
    order = np.argsort(array(given, "functions.start")[found], kind="stable")
    put(given, "functions.index", found[order])


def _padding(kernels: Any, given: Given) -> Ran:
    marks = np.zeros(len(array(given, "gap_start")), np.uint8)
    arguments = views_of(given, "code", "gap_start", "gap_end")
    kernels.sframe.merge_fdes.padding(number(given, "instructions"), *arguments, marks.data)
    return Ran(0, (int(marks.sum()), len(marks)), (marks,))


GROUPED = tuple(f"ranges.{name}" for name in ("start", "last", "joins", "rows", "size", "repeated", "single_cost"))


def _group(kernels: Any, given: Given) -> Ran:
    count = len(array(given, "ranges.start"))
    best, begin = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    ranges = kernels.sframe.merge_fdes.Ranges(*views_of(given, *GROUPED))
    numbers = (number(given, name) for name in ("max_rows", "window", "scale", "fde_cost"))
    kernels.sframe.merge_fdes.group(*numbers, ranges, best.data, begin.data)
    return Ran(0, (int((begin != np.arange(count)).sum()),), (best, begin))


SFRAME_KERNELS = (
    Kernel(
        "kernel-sframe-fres",
        "sframe.fres.decode",
        READERS,
        _decode,
        kernel_files("sframe/fres", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), *BLOCKS, "minimum", "ascending"),
        fixed=("reader.sizes", "fres.words"),
        groups=(BLOCKS,),
        rules=(*reader_rules(), *BLOCK_RULES, between("minimum", 0, 2), between("ascending", 0, 1)),
    ),
    Kernel(
        "kernel-sframe-find",
        "sframe.find_fre.find",
        READERS,
        _find,
        kernel_files("sframe/find_fre", "sframe/fres", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), *BLOCKS, "minimum", "target"),
        fixed=("reader.sizes", "fres.words"),
        groups=((*BLOCKS, "target"),),
        rules=(*reader_rules(), *BLOCK_RULES, between("minimum", 0, 2)),
    ),
    Kernel(
        "kernel-sframe-project",
        "sframe.project.project",
        WRITERS,
        _project,
        kernel_files("sframe/project"),
        values=(*ROW_NAMES, *RULE_NAMES),
        fixed=ABI_NAMES,
        groups=(ROW_NAMES, RULE_NAMES),
        rules=_table_rules("rows", "rules"),
    ),
    Kernel(
        "kernel-sframe-flex",
        "sframe.project.project_flex",
        WRITERS,
        _project_flex,
        kernel_files("sframe/project"),
        values=(*PAIR_ROWS, *PAIR_RULES, *CFA_FORMS, *RULE_FORMS, "wanted"),
        fixed=tuple(f"pairs.{name}" for name in ABI_NAMES),
        groups=((*PAIR_ROWS, *CFA_FORMS, "wanted"), (*PAIR_RULES, *RULE_FORMS)),
        rules=(
            *_table_rules("pairs.rows", "pairs.rules"),
            between("pairs.cfa.kind", 0, max(table_rules.CfaKind)),
            between("pairs.forms.kind", 0, max(table_rules.RuleKind)),
        ),
    ),
    Kernel(
        "kernel-sframe-split",
        "sframe.fres.split",
        WRITERS,
        _split,
        kernel_files("sframe/fres"),
        values=("limit", "run_rows", *FRE_ROWS),
        groups=(FRE_ROWS, ("run_rows",)),
        rules=SPLIT_RULES,
    ),
    Kernel(
        "kernel-sframe-encode",
        "sframe.fres.split",
        WRITERS,
        _encode,
        kernel_files("sframe/fres"),
        values=("limit", "run_rows", *FRE_ROWS),
        groups=(FRE_ROWS, ("run_rows",)),
        rules=SPLIT_RULES,
    ),
    Kernel(
        "kernel-sframe-share",
        "sframe.fres.split",
        WRITERS,
        _share,
        kernel_files("sframe/share_blocks", "sframe/fres"),
        values=("limit", "run_rows", *FRE_ROWS),
        groups=(FRE_ROWS, ("run_rows",)),
        rules=SPLIT_RULES,
    ),
    Kernel(
        "kernel-sframe-pieces",
        "sframe.pieces.cut",
        WRITERS,
        _cut,
        kernel_files("sframe/pieces"),
        values=("functions.index", *FUNCTIONS, *SEGMENTS),
        groups=(FUNCTIONS, SEGMENTS[1:]),
        rules=(
            starts("segments.first", "segments.reason"),
            rule(
                ["functions.run", "#segments.first"],
                ["functions.run"],
                lambda given: put(
                    given,
                    "functions.run",
                    np.clip(array(given, "functions.run"), 0, max(0, len(array(given, "segments.first")) - 2)),
                ),
            ),
            rule(["functions.index", "functions.start", "#functions.start"], ["functions.index"], _limit_functions),
        ),
    ),
    Kernel(
        "kernel-sframe-padding",
        "sframe.merge_fdes.padding",
        ("libraries", "elf-written", "elf"),
        _padding,
        kernel_files("sframe/merge_fdes"),
        data=("code",),
        values=("instructions", "gap_start", "gap_end"),
        groups=(("gap_start", "gap_end"),),
        rules=(one_of("instructions", *PaddingCode), bounds("gap_start", "gap_end", "code")),
    ),
    Kernel(
        "kernel-sframe-merge",
        "sframe.merge_fdes.group",
        WRITERS,
        _group,
        kernel_files("sframe/merge_fdes"),
        values=("max_rows", *GROUPED),
        fixed=("window", "scale", "fde_cost"),
        groups=(GROUPED,),
        rules=(
            ascending("ranges.start"),
            rule(
                ["ranges.start", "ranges.last"],
                ["ranges.last"],
                lambda given: put(
                    given, "ranges.last", np.maximum(array(given, "ranges.last"), array(given, "ranges.start"))
                ),
            ),
            between("max_rows", 0, 1 << 32),
            between("ranges.rows", 0, 1 << 32),
            between("ranges.size", 0, 1 << 40),
            between("ranges.repeated", 0, 32),
            between("ranges.single_cost", 0, 1 << 48),
        ),
    ),
)
