"""unwindkit's own reader: `unwindkit find` on each case."""

from __future__ import annotations

from unwindkit.conform.own_reader import answers
from unwindkit.converters.arch.table import ARCHITECTURES

from .protocol import Request, serve


def answer(request: Request) -> list[tuple[str, ...]]:
    """The rows at the PCs of a case."""
    with open(request.path, "rb") as file:
        data = file.read()
    architecture = ARCHITECTURES[request.architecture]
    return answers(data, request.section, architecture, request.byte_order, request.address, request.pcs)


if __name__ == "__main__":
    serve(answer)
