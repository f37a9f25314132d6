"""SVG pictures of the manual become part of their page, so that they follow its light or dark colours.

Strategy: on a code host a picture is an image and asks the system for its colours (`prefers-color-scheme`); the site
can be switched by a button, too, which only elements of the page itself follow (`var(--color-foreground-primary)`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes


def inline_pictures(app: Any, tree: nodes.document, _name: str) -> None:
    """Replace each image of an SVG file by the file's element."""
    if app.builder.format != "html":
        return
    for image in list(tree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".svg" and path.is_file():
            drawn = path.read_text(encoding="utf-8")
            element = drawn[drawn.index("<svg") :]
            label = f'role="img" aria-label="{image.get("alt", "")}"'
            text = f'<div class="picture">{element.replace("<svg", f"<svg {label}", 1)}</div>'
            image.replace_self(nodes.raw("", text, format="html"))


def setup_pictures(app: Any) -> None:
    """Called by conf.py."""
    app.connect("doctree-resolved", inline_pictures)
