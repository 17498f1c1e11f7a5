"""Write what the shipped measurements say of predicted steps: the intervals by regime, and the page of the documentation.

python benchmarks/plan/accuracy.py     (half a minute)
"""

from __future__ import annotations

from pathlib import Path

from preflight.plan.calibration.conformal import regimes, write_regimes
from preflight.plan.validation.steps import measured_steps
from preflight.plan.validation.table import regimes_table, time_tables
from preflight.plan.validation.time import regimes_of, splits_of, validate_time

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "accuracy-of-time.md"
MARK = "<!-- what follows is written by benchmarks/plan/accuracy.py -->"


def main() -> None:
    """Fit, write the intervals, then the page that uses them."""
    measured = measured_steps()
    write_regimes(regimes_of(measured, splits_of(measured, calibrated=True)))
    regimes.cache_clear()
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0] if PAGE.exists() else ""
    tables = f"## Errors\n\n{time_tables(validate_time())}\n\n## Intervals\n\n{regimes_table(regimes())}\n"
    PAGE.write_text(f"{head}{MARK}\n\n{tables}", encoding="utf-8")


if __name__ == "__main__":
    main()
