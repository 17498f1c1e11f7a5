"""What a probe showed, as plain values."""

from __future__ import annotations

import math
import re
from typing import Any

from preflight.dryrun.virtual.probe.watch import Root, Watch

MOST = 40


def of(watch: Watch, trials: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of a probe."""
    parts = {id(part) for root in watch.roots.values() for part in root.module.modules() if part is not root.module}
    models = [
        _model(root, trials.get(number, {}), watch)
        for number, root in watch.roots.items()
        if root.parameters and number not in parts
    ]
    return {
        "steps": watch.progress.step,
        "losses": watch.losses.records,
        "backwards": watch.breaks.backwards[:MOST],
        "broken": watch.breaks.broken,
        "gradients": _gradients(watch),
        "masks": watch.masks.records[:MOST],
        "models": models,
    }


def _model(root: Root, told: dict[str, Any], watch: Watch) -> dict[str, Any]:
    return {
        "name": type(root.module).__name__,
        "line": root.place,
        "parameters": root.parameters,
        "chains": _chains(root, watch),
        **told,
    }


def _gradients(watch: Watch) -> dict[str, Any]:
    """How many parameters had a gradient, and which had one that was zero in each of its elements at every step."""
    seen = [g for g in watch.breaks.gradients.values() if g["steps"] >= 2]
    owners: dict[int, tuple[str, Any, str]] = {}
    for root in watch.roots.values():
        places: dict[str, str] = {}
        for path, module in root.module.named_modules():
            # A layer of PyTorch's own is looked for where the nearest of the person's own modules calls it.
            places[path] = watch.own_place(module) or places.get(path.rpartition(".")[0]) or root.place
            for name, parameter in module.named_parameters(path, recurse=False):
                owners.setdefault(id(parameter), (name, module, places[path]))
    zero = []
    for entry in seen:
        name, module, line = owners.get(id(entry["parameter"]), ("", None, ""))
        if not entry["largest"] and name and id(module) not in watch.empty:
            zero.append({"name": name, "kind": type(module).__name__, "line": line, "shaken": entry["shaken"]})
    return {"parameters": len(seen), "zero": zero[:MOST], "zeros": len(zero)}


def _chains(root: Root, watch: Watch) -> list[dict[str, Any]]:
    """Layers of one class that stand in a row under one parent: the size of what they give, and of their gradients."""
    rows: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    modules = dict(root.module.named_modules())
    for path in root.scales:  # in the order in which they ran to their end
        parent, _, last = path.rpartition(".")
        if re.fullmatch(r"\d+", last) and path in modules:
            rows.setdefault((parent, type(modules[path]).__name__), []).append((path, modules[path]))
    told = []
    for (parent, kind), members in rows.items():
        if len(members) < 3:
            continue
        told.append(
            {
                "parent": parent,
                "kind": kind,
                "outputs": [_rounded(root.scales[path]) for path, _ in members],
                "gradients": [_rounded(_gradient(module, watch)) for _, module in members],
            }
        )
    return told[:MOST]


def _gradient(module: Any, watch: Watch) -> float | None:
    """Size of the gradients of a module's matrices in the first step."""
    found = [
        watch.breaks.gradients[id(p)]["first"]
        for p in module.parameters()
        if p.dim() > 1 and id(p) in watch.breaks.gradients and watch.breaks.gradients[id(p)]["first"] is not None
    ]
    return math.sqrt(sum(size * size for size in found) / len(found)) if found else None


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
