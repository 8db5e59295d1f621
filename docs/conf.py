"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

project = "shardline"
author = "the shardline authors"
version = release = version_of("shardline")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["examples"]

# Docstrings write code as `code`.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
python_use_unqualified_type_names = True
add_module_names = False

myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"shardline {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {"top_of_page_buttons": []}
pygments_style = "tango"
pygments_dark_style = "native"


def show_examples_as_code(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Mark what a docstring indents behind an empty line as code, which it is."""
    for at in range(len(lines) - 1, 0, -1):
        begins = lines[at].startswith("    ") and not lines[at - 1].strip()
        after_prose = any(
            line.strip() and not line.startswith(" ") for line in lines[at - 2 : at - 1]
        )
        if begins and after_prose:
            lines[at:at] = ["::", ""]


def setup(app: Any) -> None:
    """Let Sphinx call us."""
    app.connect("autodoc-process-docstring", show_examples_as_code)
