"""What a dry run says that a real run should show, in the words in which both are compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from preflight.vocabulary.quantity import MIB, format_bytes

PARAMETERS, TRAINED = "parameters-as-predicted", "trained-as-predicted"
RATES, MEMORY = "rates-as-predicted", "memory-as-predicted"
"""The relations that hold a run against a prediction."""

SHARE = 0.05
"""How far a peak may be off: all published peaks that a dry run was compared with lie within (benchmarks/dryrun)."""
SLACK = 64 * MIB
"""Bytes beside it: two workspaces of cuBLAS, which a run may have and a dry run not, or the other way round."""
_WITHIN = f", within {SHARE:.0%} and {format_bytes(SLACK)}"

_WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def plain_name(name: str) -> str:
    """Return the name of a parameter without what wrappers put into it: ``module.`` of DDP, ``_orig_mod.`` of compile."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def parameter(dtype: str, shape: Iterable[int], trained: bool) -> str:
    """Return what a parameter is."""
    return f"{dtype} {' x '.join(map(str, shape)) or 'one number'}, {'trained' if trained else 'not trained'}"


def trained(shapes: Iterable[Iterable[int]]) -> str:
    """Return how many parameters of such shapes there are, and how many elements they have."""
    elements = [math.prod(shape) for shape in shapes]
    return f"{len(elements):,} parameters with {sum(elements):,} elements"


def rates(values: Iterable[float]) -> str:
    """Return the learning rates of a step, each once, whatever the order of their groups."""
    return ", ".join(f"{rate:.6g}" for rate in sorted(set(values)))


def of_parameter(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of a parameter."""
    return f"The parameter {subject.get('parameter')} is {_expected(subject)}"


def of_trained(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of all parameters of an optimizer."""
    return f"Optimizer {subject.get('optimizer')} trains {_expected(subject)}"


def of_rate(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of a step's learning rate."""
    step = f"Step {subject.get('step')} of optimizer {subject.get('optimizer')}"
    return f"{step} takes the learning rate {_expected(subject)}"


def of_memory(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of the memory of a rank."""
    peaks = [format_bytes(one) for one in subject.get("highest") or ()]
    told = [f"{peaks[0] if peaks else 'not known'} before the first step is done"]
    told += [
        f"{peak} after {'one step' if steps == 1 else f'{steps} steps'}"
        for steps, peak in enumerate(peaks)
        if steps and peak != peaks[steps - 1]
    ]
    return f"The highest number of allocated bytes is {', '.join(told)}{_WITHIN}"


def peak_expected(subject: Mapping[str, Any], rank: int, steps: int, peak: int) -> str | None:
    """Return what was predicted where a peak is not so; None where it is, or nothing was said of it.

    Args:
        subject: ``highest`` and ``lowest``: between which bytes the peak lies once so many steps are done; ``onward``:
            whether the last of them holds from there on; ``rank``: whose the lower ones are, None for every rank.
        rank: The rank.
        steps: How many steps it had done.
        peak: The most that it had allocated until then, bytes.
    """
    highest, lowest = subject.get("highest"), subject.get("lowest")
    if not highest or not lowest or len(highest) != len(lowest):
        return None
    if steps >= len(highest) and not subject.get("onward"):
        return None
    place = min(steps, len(highest) - 1)
    most, least = highest[place], lowest[place] if subject.get("rank") in (None, rank) else 0
    if peak > most * (1 + SHARE) + SLACK:
        return f"at most {format_bytes(most)}{_WITHIN}"
    if peak < least * (1 - SHARE) - SLACK:
        return f"at least {format_bytes(least)}{_WITHIN}"
    return None


def _expected(subject: Mapping[str, Any]) -> str:
    return " or ".join(map(str, subject.get("values") or [subject.get("value")]))
