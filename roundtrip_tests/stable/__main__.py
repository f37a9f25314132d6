"""`python -m roundtrip_tests.stable`: write down what users may rely on, and say what changed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from .describe import STORED, described, differences


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = json.loads(json.dumps(described(Path(folder))))
    before = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    print("\n".join(differences(before, found) if before else ["written for the first time"]) or "nothing changed")
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


main()
