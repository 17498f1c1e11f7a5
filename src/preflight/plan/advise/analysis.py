"""The bottleneck analysis: parts of the step, rates, parts of the memory, each with the change that helps most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from preflight.plan.advise.bottleneck import BETTER
from preflight.plan.advise.sensitivities import Tried
from preflight.vocabulary.plan import AttentionMemory, Bottleneck, Candidate, Driver, Rate
from preflight.vocabulary.quantity import format_bytes, format_seconds

# Parts that are smaller hold nothing back; a change that takes away less than a tenth of a part is no answer to it.
_LEAST, _LESS = 0.02, 0.9
_RATES = {
    "matrix products": "matrix products", "attention": "attention", "memory bandwidth": "memory",
    "the link inside a node": "inside a node", "the network between nodes": "between nodes",
}  # fmt: skip
# The context of the driver is what it is: no change of a layout is an answer to it.
_GIVEN = ("context", "fragmentation")


def analysis_of(
    chosen: Candidate,
    trials: list[Tried],
    drivers: tuple[Driver, ...],
    rates: tuple[Rate, ...] = (),
    attention: AttentionMemory | None = None,
) -> tuple[Bottleneck, ...]:
    """Return what holds a layout back, the largest share of each kind first.

    Args:
        chosen: The layout.
        trials: What single changes of it lead to.
        drivers: What its step depends on.
        rates: What of each rate is counted on.
        attention: Memory with and without the matrix of scores.
    """
    return (*_of_time(chosen, trials), *_of_rates(drivers, rates), *_of_memory(chosen, trials, attention))


def _of_time(chosen: Candidate, trials: list[Tried]) -> list[Bottleneck]:
    if chosen.step is None or chosen.step.breakdown is None:
        return []
    spent = chosen.step.breakdown

    def seconds(name: str) -> Callable[[Candidate], float | None]:
        return lambda one: getattr(one.step.breakdown, name) if one.step and one.step.breakdown else None

    found = []
    for name in spent.__struct_fields__:
        part = getattr(spent, name)
        if part / spent.total >= _LEAST:
            best = _best(chosen, trials, seconds(name), _step)
            found.append(_part("time", name, part, spent.total, format_seconds, chosen, best))
    return sorted(found, key=lambda one: -one.share)


def _of_rates(drivers: tuple[Driver, ...], rates: tuple[Rate, ...]) -> list[Bottleneck]:
    found = []
    for driver in drivers:
        if driver.share < _LEAST:
            continue
        shorter = f"{driver.share * (1 - 1 / BETTER) * 100:.1f} %"
        begins = _RATES.get(driver.name)
        rate = next((rate for rate in rates if begins and rate.name.startswith(begins)), None)
        counted = ""
        if rate is not None:
            scale, unit = (1e12, "TFLOP/s") if rate.unit == "FLOP/s" else (1e9, "GB/s")
            counted = f"; {rate.used / scale:,.4g} of {rate.promised / scale:,.4g} {unit} are counted on"
        found.append(
            Bottleneck(
                of="rate", name=driver.name, share=driver.share,
                text=f"10 % better would shorten the step by {shorter}{counted}",
            )
        )  # fmt: skip
    return found


def _of_memory(chosen: Candidate, trials: list[Tried], attention: AttentionMemory | None) -> list[Bottleneck]:
    parts = chosen.memory.breakdown
    if parts is None or not parts.total:
        return []

    def size(name: str) -> Callable[[Candidate], float | None]:
        return lambda one: getattr(one.memory.breakdown, name) if one.memory.breakdown else None

    found = []
    if attention is not None and attention.kind in ("eager", "math"):
        found.append(_scores(attention))
    for name in parts.__struct_fields__:
        part = getattr(parts, name)
        if part / parts.total >= _LEAST and name not in _GIVEN:
            best = _best(chosen, trials, size(name), _device)
            found.append(_part("memory", name, part, parts.total, format_bytes, chosen, best))
    return sorted(found, key=lambda one: -one.share)


def _part(
    of: Literal["time", "memory"],
    name: str,
    part: float,
    total: float,
    shown: Callable[[float], str],
    chosen: Candidate,
    best: tuple[Tried, float] | None,
) -> Bottleneck:
    """A part of a whole as a bottleneck, with the change that is best against it."""
    text = f"{shown(part)} of {shown(total)}"
    change = best and _worded(chosen, *best, shown)
    return Bottleneck(of=of, name=name.replace("_", " "), share=part / total, text=text, change=change)


def _scores(attention: AttentionMemory) -> Bottleneck:
    """Return the matrix of scores as a part of the memory, where it is written out."""
    saved = attention.written_bytes - attention.flash_bytes
    fits = {"yes": "fits", "no": "does not fit", "unknown": "may fit"}[attention.flash_fits]
    return Bottleneck(
        of="memory", name="attention scores", share=saved / attention.written_bytes,
        text=f"{format_bytes(saved)} of {format_bytes(attention.written_bytes)}, growing with the square of the length",
        change=f"flash attention: {format_bytes(attention.flash_bytes)} per GPU ({fits})",
    )  # fmt: skip


def _best(
    chosen: Candidate,
    trials: list[Tried],
    part: Callable[[Candidate], float | None],
    whole: Callable[[Candidate], float],
) -> tuple[Tried, float] | None:
    """Return the change that makes the part clearly smaller and the whole smallest, and what is left of the part.

    Where the layout fits, only changes with which it still does are an answer; what computes the same numbers comes first.
    """
    now = part(chosen)
    found = []
    for trial in trials:
        then = part(trial.after)
        if now is None or then is None or then > _LESS * now:
            continue
        if chosen.memory.fits == "yes" and trial.after.memory.fits != "yes":
            continue
        found.append((not trial.change.exact, whole(trial.after), trial.change.title, trial, then))
    if not found:
        return None
    *_, trial, left = min(found, key=lambda one: one[:3])
    return trial, left


def _step(one: Candidate) -> float:
    return one.step.seconds.mid if one.step else float("inf")


def _device(one: Candidate) -> float:
    return one.memory.device_bytes.mid if one.memory.device_bytes else float("inf")


def _worded(chosen: Candidate, trial: Tried, left: float, shown: Callable[[float], str]) -> str:
    """Return a change with what it leaves of the part, and what it does to the step and to memory."""
    after, told = trial.after, [f"{shown(left)} left" if left else "nothing left"]
    if chosen.step is not None and after.step is not None:
        percent = round((after.step.seconds.mid / chosen.step.seconds.mid - 1) * 100)
        told.append(f"step {percent:+d} %" if percent else "the same step")
    if chosen.memory.device_bytes is not None and after.memory.device_bytes is not None:
        told.append(f"{format_bytes(after.memory.device_bytes.mid)} per GPU")
    fits = {"yes": "", "no": " (does not fit)", "unknown": " (may not fit)"}[after.memory.fits]
    return f"{trial.change.title}: {', '.join(told)}{fits}"
