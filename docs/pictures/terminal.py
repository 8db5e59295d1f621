"""Draws a terminal's text with its colours as a picture: NAME.svg beside this file.

Run the demo in tmux, and take what it shows:
`tmux capture-pane -e -p -t SESSION | python docs/pictures/terminal.py demo`.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text


def draw(captured: str, title: str) -> str:
    """Return an SVG of the text, as wide as its longest line."""
    lines = [Text.from_ansi(line) for line in captured.rstrip().splitlines()]
    width = max(line.cell_len for line in lines)
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title=title, theme=SVG_EXPORT_THEME)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from elsewhere
    return svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: terminal.py NAME, with a terminal's text on standard input")
    Path(__file__).with_name(f"{sys.argv[1]}.svg").write_text(
        draw(sys.stdin.read(), "shardline demo")
    )
