"""Which way a metric is better: declared, or one of the few whose name leaves no doubt."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.errors import UsageError, nearest
from preflight.vocabulary.verification import Direction

_LOWER = """seconds step_time step_seconds wall_seconds latency time_per_step loss val_loss eval_loss perplexity memory_bytes peak_memory
data_seconds forward_seconds backward_seconds optimizer_seconds compute_seconds communication_seconds checkpoint_seconds
memory_reserved_bytes max_memory_allocated error wer cer fid"""
_HIGHER = """tokens_per_second samples_per_second steps_per_second throughput mfu tflops accuracy acc f1 bleu rouge auc map goodput
precision_score recall top1 top5"""
KNOWN: dict[str, Direction] = {
    **dict.fromkeys(_LOWER.split(), "lower"),
    **dict.fromkeys(_HIGHER.split(), "higher"),
}
LOSSES = ("loss", "val_loss", "eval_loss", "perplexity")
"""Compared as curves, at equal tokens or steps, against the spread of the seeds."""


class Wanted:
    """The metrics to compare, with their directions and margins."""

    def __init__(self, declared: Iterable[str] = (), margin: float = 0.03) -> None:
        """Read declarations like ``mfu:higher`` or ``seconds:lower:2%``."""
        self.margin = margin
        self.margins: dict[str, float] = {}
        self.directions: dict[str, Direction] = {}
        for text in declared:
            self._declare(text)

    def _declare(self, text: str) -> None:
        name, *rest = text.split(":")
        if not name or len(rest) > 2:
            raise UsageError(
                f"--metric {text}: not understood", "name:higher, name:lower or name:equal, then :3% for a margin"
            )
        direction = rest[0].strip().lower() if rest else str(KNOWN.get(name, ""))
        if direction not in ("higher", "lower", "equal"):
            raise UsageError(
                f"--metric {text}: which way is it better?"
                if not rest
                else f"--metric {text}: {direction!r} is no direction",
                f"{name}:higher, {name}:lower or {name}:equal",
            )
        self.directions[name] = direction  # type: ignore[assignment]
        if len(rest) == 2:
            self.margins[name] = share_of(rest[1], f"--metric {text}")

    def direction(self, name: str) -> Direction:
        """The direction of a metric.

        Raises:
            UsageError: Nobody declared it, and the name does not tell.
        """
        found = self.directions.get(name) or KNOWN.get(name)
        if found is None:
            raise UsageError(
                f"metric {name!r}: whether higher or lower is better is not known",
                f"say --metric {name}:higher, --metric {name}:lower or --metric {name}:equal",
            )
        return found

    def refuse_what_is_not_told(self, told: Iterable[str]) -> None:
        """Refuse a declared metric that no run tells, on either side, where runs tell any.

        Raises:
            UsageError: There is one.
        """
        known = sorted(set(told))
        for name in self.directions if known else ():
            if name not in known:
                near = nearest(name, known)
                raise UsageError(
                    f"--metric {name}: no run tells it",
                    f"did you mean {near}?" if near else f"one of {', '.join(known)}",
                )

    def chosen(self, there: Iterable[str], *, all_of_them: bool) -> list[str]:
        """The metrics to compare: the declared ones; else all that are there, or only those whose direction is known."""
        present = sorted(set(there))
        if self.directions:
            return list(self.directions)
        return present if all_of_them else [name for name in present if name in KNOWN]


def share_of(text: str, where: str) -> float:
    """A share, written 0.03 or 3%."""
    plain = text.strip()
    try:
        value = float(plain.rstrip("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"{where}: {text!r} is no share between 0 and 1", "write 3% or 0.03")
    return value
