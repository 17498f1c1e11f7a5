"""Training scripts of the sizes that people train, and what one H200 measured of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "gpu" / "programs"
MEASURED: dict[str, Any] = {
    row["name"]: row
    for row in tomllib.loads((PROGRAMS.parent / "measured.toml").read_text(encoding="utf-8"))["workload"]
}
