"""The validation of time as tables in Markdown, beside what other planners reach on the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from preflight.plan.calibration.conformal import Regime
from preflight.plan.validation.time import merged
from preflight.vocabulary.validation import MemoryValidation, SweepRegret, TimeValidation

# Mean absolute errors on vTrain's rows, one node and many, of programs that were run or of what their authors publish.
RIVALS = (
    ("Calculon (run)", 0.389, 0.196),
    ("SimuMax with a guessed machine file (run)", 0.264, 0.140),
    ("llm-analysis at 0.5 efficiency (run)", 0.569, 0.179),
    ("vTrain (its own claim, profiled on the GPUs)", 0.0837, 0.1473),
)
_NODE, _NODES = "vtrain-a100-singlenode", "vtrain-a100-multinode"


def time_tables(found: TimeValidation) -> str:
    """Return errors by split and source, the choice in sweeps, and the comparison with other planners."""
    parts = [
        errors_table(found),
        "### The choice of a layout\n\nHow much slower the chosen one is than the fastest that was measured.",
        regret_table(found.regrets),
    ]
    if any(entry.split == "five folds" for entry in found.errors):
        parts += ["### Beside other planners", rivals_table(found)]
    return "\n\n".join(parts)


def errors_table(found: TimeValidation) -> str:
    """Return the errors by split and source."""
    rows = [
        (
            entry.split, entry.errors.source, str(entry.errors.rows), _percent(entry.errors.median_absolute),
            _percent(entry.errors.mae), _signed(entry.errors.bias), f"{entry.errors.coverage:.0%}",
        )
        for entry in merged(found.errors)
    ]  # fmt: skip
    return _table(("split", "source", "rows", "median error", "mean error", "bias", "inside the 90 % interval"), rows)


def regret_table(regrets: Iterable[SweepRegret]) -> str:
    """Return how much slower the chosen layouts are than the fastest ones."""
    rows = [
        (
            entry.split,
            entry.source,
            entry.of,
            str(entry.sweeps),
            *(_percent(x) for x in (entry.median, entry.mean, entry.worst)),
        )
        for entry in regrets
    ]
    return _table(("split", "source", "sweep of", "sweeps", "median regret", "mean", "worst"), rows)


def rivals_table(found: TimeValidation) -> str:
    """Return mean errors on vTrain's rows beside those of other planners."""
    own = {(entry.split, entry.errors.source): entry.errors.mae for entry in merged(found.errors)}
    rows = [
        (f"Preflight, {split}", _percent(own[split, _NODE]), _percent(own[split, _NODES]))
        for split in ("catalog alone", "five folds")
    ]
    rows += [(name, _percent(node), _percent(nodes)) for name, node, nodes in RIVALS]
    return _table(("planner", "mean error, one node", "mean error, many nodes"), rows)


def memory_table(found: MemoryValidation) -> str:
    """Return the errors of memory by source and kind of reading, and how often the verdict was right."""
    entries = (*found.errors, *((found.macro,) if found.macro else ()))
    rows = [
        (
            entry.source, entry.quantity, str(entry.rows), _percent(entry.median_absolute), _percent(entry.mae),
            _signed(entry.bias), f"{entry.coverage:.0%}",
        )
        for entry in entries
    ]  # fmt: skip
    head = ("source", "reading", "rows", "median error", "mean error", "bias", "inside the 90 % interval")
    right = found.fits_right
    verdict = "" if right is None else f"\n\nFits or not, where a verdict was given: right in {right:.0%} of the runs."
    return _table(head, rows) + verdict


def regimes_table(regimes: dict[str, Regime]) -> str:
    """Return the intervals by regime."""
    from math import exp

    rows = [
        (name, f"{exp(one.low) - 1:+.0%} to {exp(one.high) - 1:+.0%}", str(one.rows), str(one.sources))
        for name, one in sorted(regimes.items())
    ]
    return _table(("regime", "measured over predicted, middle 90 %", "rows", "sources"), rows)


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _signed(value: float) -> str:
    return f"{value:+.1%}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)
