"""The results of all pieces that were measured, merged into one JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from bench.environment import described

FOLDER: Final = Path(__file__).parent / "results"
FILE: Final = FOLDER / "results.json"

Results = dict[str, Any]


def load(file: Path = FILE) -> Results:
    """Return what was measured so far."""
    empty: Results = {"environment": described(), "parts": {}, "errors": {}, "runs": []}
    return {**empty, **json.loads(file.read_text())} if file.exists() else empty


def forget(file: Path = FILE) -> None:
    """Remove every piece, for a whole run: what it does not measure is not shown as measured."""
    _write({**load(file), "parts": {}, "errors": {}}, file)


def keep_run(figures: dict[str, Any], file: Path = FILE) -> Results:
    """Add the figures of a whole run; of those the last two are kept."""
    results = load(file)
    results["runs"] = [*results["runs"][-1:], figures]
    _write(results, file)
    return results


def merge(part: str, contender: str, data: Any, error: str | None, file: Path = FILE) -> Results:
    """Add a piece, in place of the one of the same part and contender; return all."""
    results = load(file)
    results["environment"] = described()
    errors = results["errors"].setdefault(part, {})
    errors.pop(contender, None)
    if error is None:
        results["parts"].setdefault(part, {})[contender] = data
    else:
        errors[contender] = error
        results["parts"].get(part, {}).pop(contender, None)
    results["errors"] = {name: found for name, found in results["errors"].items() if found}
    _write(results, file)
    return results


def _write(results: Results, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
