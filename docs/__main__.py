"""Build the manual as a site: `python -m docs` (`-o FOLDER`; default build/site). It needs the group `docs`.

Strategy: the pages are copied to a temporary folder, where those that are made are added: the API reference and the
change log. README.md lists the pages, and the navigation has its order. Sphinx takes every warning as an error: a link
that leads nowhere, a page that is not listed. Nothing in the result is loaded from elsewhere, which is checked.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

import api  # noqa: E402

CHANGES_LINK = re.compile(r"\[([^]]+)\]\((?!\w+:)([^)]+)\)")
LINK = re.compile(r"^\| \[[^]]+\]\(([\w./-]+\.md)\)", re.MULTILINE)
# What makes a browser load something: not the target of a link that a reader follows.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|embed)\b[^>]*?\ssrc=["']?(?:https?:)?//[^"'\s>]*"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|author|license))[^>]*?\shref=["']?(?:https?:)?//[^"'\s>]*"""
    r"""|@import\s+[^;]*//[^;]*|url\(["']?(?:https?:)?//[^)]*"""
)


def moved(found: re.Match[str]) -> str:
    """A link of the change log, as it is in the folder of the pages; the text alone, if it is to no page."""
    text, target = found.groups()
    return f"[{text}]({target.removeprefix('docs/')})" if target.startswith("docs/") else text


def navigation(contents: str) -> str:
    """The pages in the order of the manual's contents, by heading."""
    parts = ["```{toctree}\n:hidden:\n\nREADME\n```\n"]
    for section in contents.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        pages = [page.removesuffix(".md") for page in LINK.findall(text)]
        if pages:
            parts.append("\n".join(["```{toctree}", f":caption: {heading}", ":hidden:", "", *pages, "```", ""]))
    parts.append("```{toctree}\n:caption: Reference\n:hidden:\n\napi/index\nchangelog\n```\n")
    return "\n".join(parts)


def write_sources(folder: Path) -> Path:
    """The sources of the site in a folder: the root of the clone as links, so that pages may point to its files."""
    for path in ROOT.iterdir():
        if path.name not in ("docs", "build"):
            (folder / path.name).symlink_to(path)
    source = folder / "docs"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("__pycache__", "__main__.py"))
    api.write_pages(source / "api")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (source / "changelog.md").write_text(CHANGES_LINK.sub(moved, changes), encoding="utf-8")
    with (source / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n" + navigation((DOCS / "README.md").read_text(encoding="utf-8")))
    return source


def loaded_from_elsewhere(site: Path) -> list[str]:
    """What pages and styles of the site would load from other hosts."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css", ".svg"):
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(site)}: {one[0]}" for one in LOADED.finditer(text)]
    return found


def build(site: Path) -> int:
    """Build; returns an exit code."""
    with tempfile.TemporaryDirectory() as name:
        source = write_sources(Path(name))
        shutil.rmtree(site, ignore_errors=True)
        options = ["-q", "-b", "html", "--fail-on-warning", "--keep-going", "-d", f"{name}/doctrees", "-j", "auto"]
        if build_main([*options, str(source), str(site)]):
            return 1
    found = loaded_from_elsewhere(site)
    sys.stderr.write("".join(f"loaded from elsewhere: {one}\n" for one in found))
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", dest="site", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    return build(parser.parse_args().site)


if __name__ == "__main__":
    raise SystemExit(main())
