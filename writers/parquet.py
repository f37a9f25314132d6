"""Arrow tables as Parquet files. pyarrow is an optional dependency, and is imported only when a file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import write_pieces

# Of the usual ones, that with the best ratio; its default level takes less time than all else that an export does.
COMPRESSION = "zstd"


def write_parquet(path: Path, table: Any, about: dict[str, str] | None = None) -> int:
    """Make a `pyarrow.Table` the content of `path`: complete or not at all; `about` are the file's key-value metadata.
    Returns the size in bytes. Raises OSError.

    Most files are small: only the first column has statistics, by which readers choose files, and Arrow's schema, which
    other readers ignore, is left out. Only texts have dictionaries: for numbers they take more time and more space.
    """
    import pyarrow
    from pyarrow import parquet

    out = pyarrow.BufferOutputStream()
    texts = [one.name for one in table.schema if pyarrow.types.is_dictionary(one.type)]
    first = table.schema.names[:1]
    options = {"compression": COMPRESSION, "use_dictionary": texts, "write_statistics": first, "store_schema": False}
    with parquet.ParquetWriter(out, table.schema, **options) as writer:
        writer.write_table(table)
        if about:
            writer.add_key_value_metadata(about)
    data = out.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_pieces(path, (memoryview(data),))
    return int(data.size)
