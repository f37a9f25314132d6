"""Sphinx's configuration for the manual as a site; `python -m docs` builds it."""

from __future__ import annotations

import builtins
import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import unwindkit
from docutils import nodes
from pictures import setup_pictures
from sphinx.addnodes import pending_xref

project = "unwindkit"
author = "the unwindkit authors"
version = release = unwindkit.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
# Docstrings have names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 88
toc_object_entries = False

html_theme = "furo"
html_title = f"unwindkit {version}"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_sphinx = html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def complete(_app: object, what: str, _name: str, documented: Any, _options: object, lines: list[str]) -> None:
    """Docstrings are plain text with names in backticks; below that of a record are its fields as declared."""
    if what == "class" and dataclasses.is_dataclass(documented):
        declared = [field for field in dataclasses.fields(documented) if "doc" in field.metadata]
        lines += [f":param {field.name}: {field.metadata['doc']}" for field in declared] + [""]
    lines[:] = [plain(line) for line in lines]


def plain(line: str) -> str:
    """A line of a docstring, in which asterisks and underscores outside backticks mean nothing."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"[*|]|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    # A letter after the second backtick has to be told apart from it.
    parts[2::2] = [re.sub(r"^(?=\w)", r"\\ ", part) for part in parts[2::2]]
    return "`".join(parts)


def name_types_exactly(_app: object, tree: nodes.document) -> None:
    """A type in a signature is the public name or none, never a field of some class that has the same name."""
    for reference in list(tree.findall(pending_xref)):
        if reference.get("refdomain") != "py":
            continue
        reference["refspecific"] = False
        if reference["reftarget"] in unwindkit.__all__:
            reference["reftarget"] = f"unwindkit.{reference['reftarget']}"
        elif hasattr(builtins, reference["reftarget"]):
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", complete)
    app.connect("doctree-read", name_types_exactly)
    setup_pictures(app)
