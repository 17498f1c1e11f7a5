"""What a run showed, as plain values."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from preflight.dryrun.virtual.engine.gpu import VirtualGpu
from preflight.dryrun.virtual.loops import Rounds
from preflight.dryrun.virtual.memory import ledger as words

LARGEST = 10
_REPEATED = re.compile(r"(^|\.)\d+(?=\.|$)")
"""The blocks of a network are counted together: ``h.0.mlp`` and ``h.1.mlp`` as ``h.*.mlp``."""
_LINES = 40


def of(gpu: VirtualGpu, optimizers: list[Any], rounds: Rounds) -> dict[str, Any]:
    """Return the summary of a run."""
    ledger, progress = gpu.ledger, gpu.progress
    ledger.finish()
    holders: Counter[tuple[str, str, str]] = Counter()
    categories: Counter[str] = Counter()
    for holding in ledger.at_peak:
        category = words.purpose(holding)
        categories[category] += holding.held
        holders[(category, _REPEATED.sub(r"\1*", holding.module), holding.line)] += holding.held
    full = ledger.full
    return {
        "steps": progress.step,
        "backwards": progress.backwards,
        "operators": gpu.operators,
        "peak_bytes": ledger.peak,
        "compiled_bytes": ledger.compiled.peak if ledger.compiled.any else 0,
        "peak_phase": ledger.peak_at[0],
        "peak_step": ledger.peak_at[1],
        "reserved_bytes": max((peak.reserved for peak in ledger.peaks.values()), default=0),
        "categories": dict(categories),
        "holders": [
            {"category": category, "module": module, "line": line, "bytes": size}
            for (category, module, line), size in holders.most_common(LARGEST)
        ],
        "timeline": [
            {"step": step, "phase": phase, "allocated": peak.allocated, "reserved": peak.reserved}
            for (step, phase), peak in ledger.peaks.items()
        ],
        "course": ledger.course.points({holding.number: words.purpose(holding) for holding in ledger.live.values()}),
        "full": None
        if full is None
        else {
            "phase": full.phase,
            "step": full.step,
            "module": full.module,
            "line": full.line,
            "operator": full.operator,
            "requested": full.requested,
            "allocated": full.allocated,
            "reserved": full.reserved,
        },
        "syncs": [
            {"kind": kind, "line": line, "phase": phase, "step": step, "count": count}
            for (kind, line, phase, step), count in gpu.syncs.items()
        ],
        "lines": [
            {"line": line, "step": step, "operators": count} for (line, step), count in gpu.lines.most_common(_LINES)
        ],
        "growth": rounds.growth.found,
        **gpu.traffic.summary(),
        "cut": [{"line": line, "rounds": done, "length": size} for line, (done, size) in rounds.cut.items()],
        "work": gpu.work.summary(),
        "optimizers": [type(optimizer).__name__ for optimizer in optimizers],
    }
