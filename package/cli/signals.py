"""Signals that end a command: temporary files are removed first, and no traceback is printed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal has come that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Signals that would end the process raise Ended in the body, once: from the second one on, and after the body,
    they do what they do by default. Ignored signals stay ignored, as by nohup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    caught = [number for number, action in before.items() if action in (signal.SIG_DFL, signal.default_int_handler)]

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for one in caught:
            signal.signal(one, signal.SIG_DFL)
        raise Ended(number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            if signal.getsignal(number) is end:
                signal.signal(number, before[number])
