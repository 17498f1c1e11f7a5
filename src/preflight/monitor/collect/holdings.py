"""What a checkpoint says of where the run was: its counters and stages, how much its optimizers had learnt, the scale of its losses.

Told alike of what is saved and of what was loaded, so that the two can be compared.
"""

from __future__ import annotations

import re
from typing import Any

from .groups import number_of

_MOST_PARTS = 64
_MOST_OPTIMIZERS = 8
_MOST_RATES = 16
_STAGES = frozenset({"stage", "phase", "task", "fold", "level", "curriculum", "mode"})
_LONGEST = 64  # letters of a text that names one of these


def holdings(value: Any) -> dict[str, Any]:
    """The whole numbers, stages, optimizers and scales among the first parts of what a file holds; nothing where it has none."""
    if not isinstance(value, dict):
        return {}
    told: dict[str, Any] = {}
    parts = [("", value)] if _is_optimizer(value) else list(value.items())[:_MOST_PARTS]
    counts = {str(key): one for key, one in parts if type(one) is int and abs(one) < 1 << 62}
    optimizers = {str(key): _optimizer(one) for key, one in parts if _is_optimizer(one)}
    stages = {str(key): one for key, one in parts if _is_stage(key, one)}
    if counts:
        told["counts"] = counts
    if stages:
        told["stages"] = stages
    if optimizers:
        told["optimizers"] = dict(list(optimizers.items())[:_MOST_OPTIMIZERS])
    scales = [one["scale"] for _, one in parts if isinstance(one, dict) and "growth_factor" in one and "scale" in one]
    if len(scales) == 1 and type(scales[0]) is float:
        told["scale"] = scales[0]
    return told


def _is_stage(key: Any, value: Any) -> bool:
    """Whether a part says which of several trainings a run is in, each of which counts by itself."""
    short = (type(value) is str and len(value) <= _LONGEST) or (type(value) is int and abs(value) < 1 << 62)
    return short and bool(_STAGES & {*re.split(r"[^a-z]+", str(key).lower())})


def _is_optimizer(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"state", "param_groups"}:
        return False
    groups = value["param_groups"]
    listed = isinstance(groups, list) and all(isinstance(group, dict) for group in groups)
    return listed and isinstance(value["state"], dict)


def _optimizer(state: dict[str, Any]) -> dict[str, Any]:
    """How many parameters an optimizer has, how many of them it keeps something for, and what it was set to."""
    groups = state["param_groups"]
    return {
        "states": len(state["state"]),
        "held": sum(len(group["params"]) for group in groups if isinstance(group.get("params"), list)),
        "settings": sorted({str(word) for group in groups for word in group}),
        "rates": [number_of(group.get("lr")) for group in groups[:_MOST_RATES]],
    }
