# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers for what is equal, in the order in which it first occurs: keys, byte ranges, and what rows say.

Strategy: open hash tables, by keys that nobody can foresee; what a hash finds is compared. Rows name slices of rules,
many of them the same place: each place is looked at once, and a row then has few numbers to be told by.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I32, I64, U32, U64, ConstI64, ConstU8, ConstU16, ConstU64

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def mixed(value: cython.ulonglong, part: cython.longlong, key: cython.ulonglong) -> cython.ulonglong:
    """A hash with a part more. `key` is odd."""
    value = ((value ^ (part & ALL_ONES)) * key) & ALL_ONES
    return value ^ value >> 32


@cython.ccall
@cython.exceptval(-1, check=False)
def keys(
    base: cython.ulonglong,
    key: ConstU64,
    slots: I32,
    number: I64,
    first: I64,
) -> cython.longlong:
    """Give equal keys one number; return how many. `first` is the element that each number first occurs with.

    `slots`, all -1, is the hash table: its length a power of two above twice the keys. `base` is odd and drawn anew for
    each use.
    """
    mask: cython.longlong = slots.shape[0] - 1
    count: cython.longlong = 0
    index: cython.longlong
    slot: cython.longlong
    for index in range(key.shape[0]):
        slot = cython.cast(cython.longlong, mixed(key[index], 0, base) & mask)
        while slots[slot] >= 0 and key[first[slots[slot]]] != key[index]:
            slot = slot + 1 & mask
        if slots[slot] < 0:
            slots[slot] = cython.cast(cython.int, count)
            first[count] = index
            count += 1
        number[index] = slots[slot]
    return count


@cython.ccall
@cython.exceptval(-1, check=False)
def slices(
    first_rule: ConstI64,
    rule_count: ConstU16,
    register: ConstU16,
    kind: ConstU8,
    value: ConstI64,
    base: ConstU64,
    slots: I32,
    known_count: I32,
    known_number: I64,
    number: I64,
    first: I64,
) -> cython.longlong:
    """Give rows with equal register rules one number; return how many. `first` is the row that each first occurs with.

    `known_count`, all -1, and `known_number` have an element for each rule and one more: what the last slice there was.
    `base` is two odd numbers; `slots` as in `keys`, for rows.
    """
    mask: cython.longlong = slots.shape[0] - 1
    count: cython.longlong = 0
    row: cython.longlong
    place: cython.longlong
    other: cython.longlong
    rule: cython.longlong
    size: cython.longlong
    slot: cython.longlong
    value_: cython.ulonglong
    for row in range(first_rule.shape[0]):
        place = first_rule[row]
        size = rule_count[row]
        if known_count[place] == size:
            number[row] = known_number[place]
            continue
        value_ = size
        for rule in range(place, place + size):
            value_ = mixed(value_, register[rule] | kind[rule] << 16, base[0])
            value_ = mixed(value_, value[rule], base[1])
        slot = cython.cast(cython.longlong, mixed(value_, 0, base[0]) & mask)
        while slots[slot] >= 0:
            other = first[slots[slot]]
            if rule_count[other] == size:
                other = first_rule[other]
                rule = 0
                while (
                    rule < size
                    and register[other + rule] == register[place + rule]
                    and kind[other + rule] == kind[place + rule]
                    and value[other + rule] == value[place + rule]
                ):
                    rule += 1
                if rule == size:
                    break
            slot = slot + 1 & mask
        if slots[slot] < 0:
            slots[slot] = cython.cast(cython.int, count)
            first[count] = row
            count += 1
        number[row] = slots[slot]
        known_count[place] = cython.cast(cython.int, size)
        known_number[place] = slots[slot]
    return count


@cython.ccall
@cython.exceptval(-1, check=False)
def contents(
    slice_number: ConstI64,
    cfa_kind: ConstU8,
    cfa_register: ConstU16,
    cfa_offset: ConstI64,
    ra_state: ConstU8,
    base: ConstU64,
    slots: I32,
    number: I64,
    first: I64,
) -> cython.longlong:
    """Give rows that say the same one number; return how many. `first` is the row that each number first occurs with.

    `slice_number` is equal for rows that differ in nothing but the other columns. A register counts where the CFA has
    one, an offset where there is a CFA. `base` is two odd numbers; `slots` as in `keys`.
    """
    mask: cython.longlong = slots.shape[0] - 1
    count: cython.longlong = 0
    row: cython.longlong
    other: cython.longlong
    slot: cython.longlong
    register: cython.longlong
    value: cython.ulonglong
    for row in range(slice_number.shape[0]):
        register = cfa_register[row] if cfa_kind[row] == CFA_REGISTER else 0
        value = mixed(slice_number[row], register | cfa_kind[row] << 16 | ra_state[row] << 24, base[0])
        if cfa_kind[row] != CFA_NONE:
            value = mixed(value, cfa_offset[row], base[1])
        slot = cython.cast(cython.longlong, mixed(value, 0, base[1]) & mask)
        while slots[slot] >= 0:
            other = first[slots[slot]]
            if (
                slice_number[other] == slice_number[row]
                and cfa_kind[other] == cfa_kind[row]
                and (cfa_kind[row] != CFA_REGISTER or cfa_register[other] == cfa_register[row])
                and (cfa_kind[row] == CFA_NONE or cfa_offset[other] == cfa_offset[row])
                and ra_state[other] == ra_state[row]
            ):
                break
            slot = slot + 1 & mask
        if slots[slot] < 0:
            slots[slot] = cython.cast(cython.int, count)
            first[count] = row
            count += 1
        number[row] = slots[slot]
    return count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word_at(data: ConstU8, at: cython.longlong) -> cython.longlong:
    """Eight bytes as a number."""
    word: cython.ulonglong = 0
    place: cython.int
    for place in range(8):
        word = word | cython.cast(cython.ulonglong, data[at + place]) << 8 * place
    return cython.cast(cython.longlong, word)


@cython.ccall
@cython.exceptval(-1, check=False)
def intern(
    base: cython.ulonglong,
    data: ConstU8,
    start: ConstI64,
    end: ConstI64,
    kind: ConstI64,
    slots: I32,
    hashes: U64,
    run: U32,
    first: I64,
) -> cython.longlong:
    """Give equal byte ranges (of equal `kind`) one number in `run`; return how many.

    `first` is the range that each number first occurs with; `slots` and `base` as in `keys`.
    """
    mask: cython.longlong = slots.shape[0] - 1
    count: cython.longlong = 0
    index: cython.longlong
    other: cython.longlong
    slot: cython.longlong
    step: cython.longlong
    length: cython.longlong
    rest: cython.longlong
    value: cython.ulonglong
    for index in range(start.shape[0]):
        length = end[index] - start[index]
        value = mixed(cython.cast(cython.ulonglong, kind[index]) & ALL_ONES, length, base)
        step = start[index]
        while step + 8 <= end[index]:
            value = mixed(value, word_at(data, step), base)
            step += 8
        rest = 0
        while step < end[index]:
            rest = rest << 8 | data[step]
            step += 1
        value = mixed(value, rest, base)
        slot = cython.cast(cython.longlong, value & mask)
        while slots[slot] >= 0:
            other = first[slots[slot]]
            if hashes[slots[slot]] == value and kind[other] == kind[index] and end[other] - start[other] == length:
                step = 0
                while step < length and data[start[other] + step] == data[start[index] + step]:
                    step += 1
                if step == length:
                    break
            slot = slot + 1 & mask
        if slots[slot] < 0:
            slots[slot] = cython.cast(cython.int, count)
            first[count] = index
            hashes[count] = value
            count += 1
        run[index] = cython.cast(cython.uint, slots[slot])
    return count
