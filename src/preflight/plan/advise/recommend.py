"""Recommendations: what to change, what it does in numbers, what it costs."""

from __future__ import annotations

from preflight.plan.advise.sensitivities import Tried
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Recommendation

_FASTER = 0.03
_SMALLER = 0.05
# What saves so much memory at the same time is worth having too: for a longer sequence, a larger batch, a sure fit.
_SAME, _MUCH = 0.005, 0.15
_MOST = 6
_ORDER = {"critical": 0, "high": 1, "medium": 2, "low": 3}


def recommendations(before: Candidate, trials: list[Tried]) -> tuple[Recommendation, ...]:
    """Return the single changes worth making, the most urgent first.

    Where the layout does not fit: those that make it fit (critical), quickest first; else those that save most. Where it
    fits: those that make it quicker and still fit, and those that save much memory at the same time.
    """
    found = _towards_fitting(before, trials) if before.memory.fits != "yes" else _quicker(before, trials)
    found.sort(key=lambda entry: (_ORDER[entry[0].priority], entry[1]))
    return tuple(recommendation for recommendation, _ in found[:_MOST])


def _towards_fitting(before: Candidate, trials: list[Tried]) -> list[tuple[Recommendation, float]]:
    now = before.memory.device_bytes
    found = []
    for trial in trials:
        then = trial.after.memory.device_bytes
        if now is None or then is None or then.mid > (1 - _SMALLER) * now.mid:
            continue
        fits = trial.after.memory.fits == "yes"
        seconds = trial.after.step.seconds.mid if trial.after.step else 0.0
        entry = _worded("critical" if fits else "high", before, trial)
        found.append((entry, seconds if fits else then.mid))
    return found


def _quicker(before: Candidate, trials: list[Tried]) -> list[tuple[Recommendation, float]]:
    found = []
    for trial in trials:
        if before.step is None or trial.after.step is None or trial.after.memory.fits != "yes":
            continue
        ratio = trial.after.step.seconds.mid / before.step.seconds.mid
        if ratio < 1 - _FASTER:
            sure = trial.after.step.seconds.high < before.step.seconds.mid or ratio < 0.9
            entry = _worded("medium" if sure and trial.change.exact else "low", before, trial)
            found.append((entry, ratio))
        elif trial.change.exact and ratio < 1 + _SAME and _saved(before, trial) > _MUCH:
            found.append((_worded("low", before, trial), ratio))
    return found


def _saved(before: Candidate, trial: Tried) -> float:
    """Return the share of the memory that a change saves."""
    now, then = before.memory.device_bytes, trial.after.memory.device_bytes
    return 1 - then.mid / now.mid if now is not None and then is not None else 0.0


def _worded(priority: str, before: Candidate, trial: Tried) -> Recommendation:
    return Recommendation(
        priority=priority,  # type: ignore[arg-type]
        change=trial.change.title,
        effect=effect(before, trial.after),
        side_effect=trial.change.side_effect,
    )


def together(before: Candidate, steps: list[Tried]) -> Recommendation:
    """Return several changes that fit together where none does alone, as one recommendation."""
    costs = [trial.change.side_effect for trial in steps if trial.change.side_effect]
    return Recommendation(
        priority="critical",
        change="; ".join(trial.change.title for trial in steps),
        effect=effect(before, steps[-1].after),
        side_effect="; ".join(costs) or None,
    )


def effect(before: Candidate, after: Candidate) -> str:
    """Return what changes, before and after: memory, whether it fits, time."""
    parts = []
    now, then = before.memory.device_bytes, after.memory.device_bytes
    if now is not None and then is not None:
        fits = {"yes": "fits", "no": "does not fit", "unknown": "may fit"}[after.memory.fits]
        parts.append(f"{format_bytes(now.mid)} -> {format_bytes(then.mid)} per GPU ({fits})")
    if before.step is not None and after.step is not None:
        ratio = after.step.seconds.mid / before.step.seconds.mid - 1
        parts.append(f"step {ratio:+.0%}".replace("%", " %"))
    return ", ".join(parts)
