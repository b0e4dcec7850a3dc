# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration of the site; `./dev docs` runs it.

The source folder is the root of the tree, so a link of a page means the same
file on the site as in the tree: to a page it is a link, to a source a copy.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["HEADRACE_BUILD"])
SITE = BUILD / "site"
sys.path.insert(0, str(BUILD / "python"))

project = "Headrace"
author = "the Headrace authors"
version = release = ".".join(re.findall(
    r"^#define HR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
    (ROOT / "hal/include/headrace/version.h").read_text(), re.M))

root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/*.md", "docs/site/*.md", "tests/README.md",
                    "tests/va_driver/README.md"]
# Sphinx looks through all other folders, if it is not told to leave them.
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir()
                    and path.name not in ("docs", "tests")]
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc",
              "sphinx.ext.napoleon", "sphinx_copybutton"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# A struct of parameters and the macro that fills it share their name.
# Several classes have a member that is named as a type of Python is.
suppress_warnings = ["duplicate_declaration.c", "ref.python"]

breathe_projects = {"headrace": str(SITE / "doxygen" / "xml")}
breathe_default_project = "headrace"
breathe_domain_by_extension = {"h": "c"}

autodoc_mock_imports = ["torch", "torchvision", "ray", "transformers"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = f"Headrace {version}"
html_show_copyright = False
html_copy_source = False
html_theme_options = {"source_edit_link": ""}
html_static_path = [str(SITE / "static"), str(ROOT / "docs/site/site.css")]
html_css_files = ["site.css"]
# A block of a page without a language is a drawing or lines of a shell.
highlight_language = "none"


def fill_pages(app, name, source):
    """Puts in what gallery.py made, and a section for each header of a list."""
    source[0] = re.sub(
        "<!-- headers: (.*) -->", lambda found: "\n".join(
            f"## {header}\n\n```{{doxygenfile}} {header}\n```\n"
            for header in found[1].split()), source[0])
    if name.endswith("site/gallery"):
        made = (SITE / "static" / "gallery" / "gallery.md").read_text()
        source[0] = source[0].replace("<!-- gallery -->", made)


def read_as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text, with Google's sections, which napoleon reads.

    A line that is indented behind an empty one is code; elsewhere what RST
    would read as markup is quoted.
    """
    made, code, empty = [], False, False
    for line in lines:
        if line.strip():
            indented = line.startswith("    ")
            if indented and empty and not code:
                made += ["::", ""]
            code = indented and (code or empty)
        empty = not line.strip()
        made.append(line if code else re.sub(r"([\\\\*`|])", r"\\\1", line))
    lines[:] = made


def setup(app):
    app.connect("source-read", fill_pages)
    app.connect("autodoc-process-docstring", read_as_text, priority=400)
