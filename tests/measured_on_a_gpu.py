"""Training scripts of the sizes that people train, and what one H200 and one H100 measured of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "gpu" / "programs"


def _measured(name: str) -> dict[str, Any]:
    rows = tomllib.loads((PROGRAMS.parent / name).read_text(encoding="utf-8"))["workload"]
    return {row["name"]: row for row in rows}


MEASURED = _measured("measured.toml")
MEASURED_H100 = _measured("measured_h100.toml")
