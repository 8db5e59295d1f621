"""One bench in a process of its own: `python -m bench.one NAME full|quick FILE`.

`python -m bench` starts these one after the other, so that none leaves the next a warm cache, a
running Spark or a leak.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.figures import Figure


def main() -> None:
    """Measure, and write the figures into the file."""
    name, how, file = sys.argv[1:]
    module = importlib.import_module(f"bench.{name}")
    quick = how == "quick"
    figures: list[Figure]
    if hasattr(module, "figures"):
        figures = module.figures(quick=quick)
    else:
        figures = module.run(2) if quick else module.run()
    Path(file).write_text(json.dumps([asdict(figure) for figure in figures]))


if __name__ == "__main__":
    main()
