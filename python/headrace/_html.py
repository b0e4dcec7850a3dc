# SPDX-License-Identifier: Apache-2.0
"""What the reports of validate and bench have in common: one HTML file."""

from __future__ import annotations

import datetime
import shlex
import sys
from collections.abc import Iterable, Iterator
from html import escape

STYLE = """
:root { --ground: #fbfaf8; --ink: #1d2430; --soft: #5c6675; --line: #e3e0da;
  --good: #1a7f5a; --bad: #bb3340; --warn: #a8690b; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181f;
  --ink: #e8eaee; --soft: #9ba5b4; --line: #2d343f; --good: #4fc394;
  --bad: #f0808a; --warn: #e3ab4f; } }
body { margin: 0 auto; max-width: 1000px; padding: 40px 28px;
  background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 15px; color: var(--soft); }
h2 { font-size: 20px; margin: 40px 0 12px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; }
dt, .soft { color: var(--soft); }
dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; overflow-wrap: normal;
  font-variant-numeric: tabular-nums; }
td { white-space: nowrap; }
td.text, td:first-child { white-space: normal; min-width: 14ch; }
@media (max-width: 600px) { body { padding: 24px 16px; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 8px; } }
th, td { padding: 4px 10px; border-bottom: 1px solid var(--line);
  text-align: right; }
th:first-child, td:first-child, td.text { text-align: left; }
ul { padding-left: 20px; }
"""
TAIL = "</body>\n</html>"


def head(title: str, style: str) -> Iterator[str]:
    """Up to the heading and when it was made; style: more of it.

    title: of the module, which is the command.
    """
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>"
    yield f"</head>\n<body>\n<h1>{escape(title)}</h1>"
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    command = shlex.join(["python3", "-m", title, *sys.argv[1:]])
    yield f'<p class="soft">{made}: <code>{escape(command)}</code></p>'


def table(rows: Iterable[str]) -> Iterator[str]:
    """Of rows; where it is too wide it scrolls, and no word is broken."""
    yield '<div class="scroll" tabindex="0">\n<table>'
    yield from rows
    yield "</table>\n</div>"


def facts(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What is known before anything is told: (what, text)."""
    yield "<dl>"
    for what, value in found:
        yield f"<dt>{escape(what)}</dt><dd>{escape(value)}</dd>"
    yield "</dl>"
