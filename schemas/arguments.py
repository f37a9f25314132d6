"""Arguments of public functions that no format defines: bytes, text, paths and addresses of callers.

Strategy: they are checked where they enter, before anything is read. A value of a wrong type raises TypeError, one that
cannot be meant raises ValueError; FormatError is for what a file or a table contains. `checked` declares the checks of
a function above it, once per call; functions that read a file themselves call them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from operator import index
from typing import Any, TypeVar, cast

ADDRESS_LIMIT = 1 << 64
OFFSET_LIMIT = 1 << 63
ADDRESS_SIZES = (1, 2, 4, 8)
SHOWN = 40  # characters of a value in a message

F = TypeVar("F", bound=Callable[..., Any])
# Takes a value and the name of its parameter.
Check = Callable[[Any, str], object]


def checked(**checks: type | Check) -> Callable[[F], F]:
    """Check arguments, by parameter, whenever the function is called: a class is for what must be an instance of it.
    Arguments that are left out are not checked."""

    def decorate(function: F) -> F:
        code = function.__code__
        places = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        listed = [(places.index(name), name, _check_of(check)) for name, check in checks.items()]

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            for place, name, check in listed:
                if name in named:
                    check(named[name], name)
                elif place < len(arguments):
                    check(arguments[place], name)
            return function(*arguments, **named)

        return cast("F", call)

    return decorate


def _check_of(check: type | Check) -> Check:
    return instance_of(check) if isinstance(check, type) else check


def instance_of(kind: type) -> Check:
    """The check for instances of a class. It raises TypeError for other objects."""

    def check(value: object, name: str) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {_article(kind.__name__)}, not {_article(type(value).__name__)}")

    return check


def _article(word: str) -> str:
    return word if word == "NoneType" else f"{'an' if word[0] in 'AEIOUaeiou' else 'a'} {word}"


def optional(check: type | Check) -> Check:
    """The same check, but for None."""
    wanted = _check_of(check)

    def check_unless_none(value: object, name: str) -> None:
        if value is not None:
            wanted(value, name)

    return check_unless_none


def each(check: type | Check) -> Check:
    """The check for a sequence, all of whose items pass a check. Text and bytes are not sequences here."""
    wanted = _check_of(check)

    def check_all(values: object, name: str) -> None:
        if not isinstance(values, Sequence) or isinstance(values, str | bytes):
            raise TypeError(f"{name} must be a sequence, not {_article(type(values).__name__)}")
        for one in values:
            wanted(one, name)

    return check_all


def collection_of(kind: type) -> Check:
    """The check for a collection, in any order, all of whose items are instances of a class."""
    wanted = instance_of(kind)

    def check_all(values: object, name: str) -> None:
        if not isinstance(values, Collection) or isinstance(values, str | bytes):
            raise TypeError(f"{name} must be a collection, not {_article(type(values).__name__)}")
        for one in values:
            wanted(one, name)

    return check_all


def one_of(*choices: str) -> Check:
    """The check for one of a few names. It raises TypeError for what is not text, and ValueError for other text."""

    def check(value: object, name: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text, not {_article(type(value).__name__)}")
        if value not in choices:
            raise ValueError(f"{name} is {value[:SHOWN]!r}, which is not one of {', '.join(choices)}")

    return check


check_byte_order = one_of("little", "big")


def check_address_size(size: int, name: str) -> None:
    """Raise TypeError for what is not an integer, and ValueError for a size in bytes that no address has."""
    check_integer(size, name)
    if size not in ADDRESS_SIZES:
        raise ValueError(f"{name} is {size}, which is not one of {', '.join(map(str, ADDRESS_SIZES))}")


def check_integer(value: int, name: str) -> None:
    """Raise TypeError for what is not an integer."""
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {_article(type(value).__name__)}")


def check_callable(value: object, name: str) -> None:
    """Raise TypeError for what cannot be called."""
    if not callable(value):
        raise TypeError(f"{name} must be callable, not {_article(type(value).__name__)}")


def check_executor(value: object, name: str) -> None:
    """Raise TypeError for what calls cannot be submitted to (concurrent.futures.Executor)."""
    if not callable(getattr(value, "submit", None)):
        raise TypeError(f"{name} must be an executor, not {_article(type(value).__name__)}")


def check_index(value: int, count: int, name: str) -> int:
    """The index. Raises TypeError for what is not an integer, and IndexError unless it is below `count`; no index
    counts from the end."""
    found = index(value)
    if not 0 <= found < count:
        raise IndexError(f"{name} is {found}, which is not an index of {count}")
    return found


def check_item(value: int, count: int, name: str) -> int:
    """The index of an item of a sequence, from its start: a negative one counts from the end. Raises as
    `check_index`."""
    found = index(value)
    if not -count <= found < count:
        raise IndexError(f"{name} is {found}, which is not an index of {count}")
    return found if found >= 0 else found + count


def check_size(value: int, name: str) -> None:
    """Raise TypeError for what is not an integer, and ValueError for a negative one."""
    if index(value) < 0:
        raise ValueError(f"{name} is {value}, which is negative")


def check_indices(values: object, count: int, name: str) -> Any:
    """The indices as an array. Raises as `check_integers`, and IndexError unless all are below `count`; none counts
    from the end."""
    import numpy as np

    check_integers(values, name)
    found = np.asarray(values)
    if not found.size:
        return found.astype(np.int64)
    for wrong in (found.min(), found.max()):
        check_index(wrong, count, name)
    return found


def check_selection(which: Any, count: int, name: str) -> Any:
    """A slice, an array of indices or a mask that chooses among `count` items. Raises as `check_indices`, and
    ValueError for a mask of another length."""
    import numpy as np

    if isinstance(which, slice):
        return which
    if not np.ndim(which):
        raise TypeError(f"{name} must be indices, a mask or a slice, not {_article(type(which).__name__)}")
    found = np.asarray(which)
    if found.dtype != np.bool_:
        return check_indices(which, count, name)
    if found.shape != (count,):
        raise ValueError(f"{name} is a mask of shape {found.shape}, expected one for each of {count} items")
    return found


def check_integers(values: object, name: str) -> None:
    """Raise TypeError for an array of other numbers than integers, and ValueError for one of several dimensions, or
    with a number outside 64 bits."""
    import numpy as np

    try:
        found = np.asarray(values)
    except OverflowError as error:
        raise ValueError(f"{name} has a number outside 64 bits") from error
    if found.ndim > 1:
        raise ValueError(f"{name} must have one dimension, not {found.ndim}")
    if found.dtype == object and all(isinstance(one, int) for one in found.reshape(-1).tolist()):
        raise ValueError(f"{name} has a number outside 64 bits")
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {found.dtype}")


def check_offsets(values: object, name: str) -> None:
    """Raise as `check_integers`, and ValueError for an offset that is negative or 2^63 or more."""
    import numpy as np

    check_integers(values, name)
    found = np.asarray(values).reshape(-1)
    for wrong in found[(found < 0) | (found >= np.uint64(OFFSET_LIMIT))][:1].tolist():
        raise ValueError(f"{name} is {wrong:#x}, which is not an offset of 63 bits")


def flat_bytes(data: bytes | bytearray | memoryview) -> memoryview:
    """A view of bytes in memory. Raises TypeError for what is not bytes, and ValueError unless the bytes are
    contiguous, in one dimension, and items of one byte."""
    view = memoryview(data)
    if view.ndim != 1 or view.itemsize != 1 or not view.c_contiguous:
        shape = f"{view.ndim} dimensions, items of {view.itemsize} bytes and strides of {view.strides}"
        raise ValueError(f"bytes must be contiguous and in one dimension, not of {shape}")
    return view if view.format == "B" else view.cast("B")


def check_address(address: int, name: str) -> int:
    """The address. Raises TypeError for what is not an integer, and ValueError for one outside 64 bits."""
    check_integer(address, name)
    if not 0 <= address < ADDRESS_LIMIT:
        raise ValueError(f"{name} is {address:#x}, which is not a 64-bit address")
    return address


def check_place(place: int | str, name: str) -> None:
    """Raise TypeError for what is neither an address nor the name of a function, and ValueError for what is outside 64
    bits or has no encoding."""
    if isinstance(place, str):
        encoded_text(place)
    else:
        check_address(place, name)


def encoded_text(text: str) -> bytes:
    """Text in UTF-8; a lone surrogate that stands for a byte (PEP 383) becomes that byte. Raises ValueError for any
    other lone surrogate."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        place = error.start
    raise ValueError(f"character {place} of {text[:40]!r} is a lone surrogate, which has no encoding")


def check_text(text: str, name: str) -> None:
    """Raise TypeError for what is not text, and ValueError for text that has no encoding."""
    instance_of(str)(text, name)
    encoded_text(text)


def text_argument(text: bytes | str) -> bytes:
    """The bytes of a text format. Raises as `flat_bytes` and `encoded_text`."""
    if isinstance(text, str):
        return encoded_text(text)
    return text if isinstance(text, bytes) else bytes(flat_bytes(text))


def check_path(path: str | os.PathLike[str], name: str = "a path") -> None:
    """Raise TypeError for what is not a path of text, and ValueError for one that no file can have."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"{name} must be text, not {type(text).__name__}")
    if b"\0" in encoded_text(text):
        raise ValueError(f"the path {text[:40]!r} has a NUL")
