"""What every page has: one file, with nothing from elsewhere; light or dark as the browser asks.

Strategy: text from a file gets into a page through `shown` only, and the page's policy forbids any script but the one
that is part of it.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

STYLE = """
:root {
  color-scheme: light dark;
  --text: #1a1a1a; --back: #ffffff; --dim: #5b6470; --line: #d8dde3; --row: #e8f3ea; --mark: #fff3cd; --link: #0b57a4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6e6e6; --back: #16181c; --dim: #9aa4b0; --line: #343a42; --row: #1d3324; --mark: #4a3f16; --link: #8ab8f0;
  }
}
body {
  margin: 0 auto; max-width: 72rem; padding: 1rem;
  color: var(--text); background: var(--back); font: 0.95rem/1.45 system-ui, sans-serif;
}
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.5rem 0 0.4rem; }
p { overflow-wrap: anywhere; }
.dim { color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; }
td, th { padding: 0.15rem 0.6rem 0.15rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
code { font: 0.85rem/1.45 ui-monospace, monospace; }
li { overflow-wrap: anywhere; }
"""


def page(title: str, body: str, style: str, script: str = "") -> str:
    """A page: `title` is text, `body` is HTML, `style` follows what all pages have."""
    allowed = f"'sha256-{_digest(script)}'" if script else "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{shown(title)}</title><style>{STYLE}{style}</style>"
    )
    end = f"\n<script>{script}</script>" if script else ""
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}{end}\n</body></html>\n'


def shown(text: str) -> str:
    """Text of a file as HTML."""
    return escape(printable(text))


def printable(text: str) -> str:
    """The text with escapes for what is no visible character: control characters, bytes that are not UTF-8, and those
    that change the direction of text."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
