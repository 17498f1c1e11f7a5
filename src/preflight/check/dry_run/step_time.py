"""The section on the time of a step, from the operators that a dry run saw."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from preflight.dryrun.time import MID, StepTime, peak, seconds_of, step_time
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.hardware import Gpu, Link
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.roofline import Roofline, RoofPoint

if TYPE_CHECKING:
    from preflight.source.launcher import Launch

_TOP = 8
_POINTS = 40


def step_of(profile: Profile, gpu: Gpu | None, launch: Launch, facts: dict[str, Fact]) -> dict[str, Any] | None:
    """Return the section ``step`` of the report; None where no whole step was seen."""
    if gpu is None or profile.full is not None:
        return None
    link = link_of(gpu, launch)
    found = step_time(profile.work, gpu, link)
    if found is None:
        return None
    seconds = found.seconds
    busy = sum(found.mid.busy.values())
    idle = max(0.0, seconds.mid - busy - found.mid.communication)
    step: dict[str, Any] = {"seconds": _interval(seconds)}
    tokens = _tokens(profile)
    if tokens:
        step["tokens_per_second_per_gpu"] = tokens / seconds.mid
    batch = facts.get("batch.micro")
    if batch is not None and isinstance(batch.value, int) and profile.work.rounds:
        step["samples_per_second"] = batch.value * profile.work.rounds / seconds.mid
    if found.flop:
        step["model_tflops_per_gpu"] = found.flop / seconds.mid / 1e12
        step["mfu"] = found.flop / seconds.mid / peak(gpu, found.dtype)
    optimizer = found.mid.busy.get("optimizer", 0.0)
    step["breakdown"] = {
        "compute": busy - optimizer,
        "exposed_communication": found.mid.communication,
        "bubble": 0.0,
        "optimizer": optimizer,
        "data": None,
        "host": idle,
    }
    step["host_bound_share"] = idle / seconds.mid
    step["bottleneck"] = _bottleneck(busy, found.mid.communication, idle)
    step["top_operators"] = _top(profile, found)
    return step


def roofline_of(profile: Profile, gpu: Gpu | None) -> Roofline | None:
    """Return the operators of the step beneath the roofs of the GPU; None where none of them has counted operations."""
    if gpu is None:
        return None
    counts = Counter(profile.work.order)
    points: dict[tuple[Any, ...], RoofPoint] = {}
    moving = 0.0
    for at, calls in counts.items():
        kind = profile.work.kinds[at]
        if kind.phase == "eval" or not kind.kernels or kind.ranks is not None:
            continue
        seconds = calls * seconds_of(kind, gpu, MID)
        if not kind.flop or not kind.bytes:
            moving += seconds
            continue
        key = (kind.operator, kind.phase, kind.dtype, kind.product or kind.shape)
        before = points.get(key)
        points[key] = RoofPoint(
            operator=kind.operator, phase=kind.phase, dtype=kind.dtype,
            size=" x ".join(map(str, kind.product[1:] if kind.product else kind.shape)),
            calls=calls + (before.calls if before else 0.0),
            flop=calls * kind.flop + (before.flop if before else 0.0),
            bytes=calls * kind.bytes + (before.bytes if before else 0.0),
            seconds=seconds + (before.seconds if before else 0.0),
        )  # fmt: skip
    ranked = sorted(points.values(), key=lambda one: (-one.seconds, one.operator, one.phase, one.dtype))
    if not ranked:
        return None
    shown = ranked[:_POINTS]
    return Roofline(
        gpu=gpu.title,
        peaks={dtype: peak(gpu, dtype) for dtype in sorted({one.dtype for one in shown})},
        bandwidth=gpu.bandwidth,
        points=tuple(shown),
        left_out_seconds=sum(one.seconds for one in ranked[_POINTS:]),
        moving_seconds=moving,
        basis="operators of one step of the dry run, each timed by formula",
    )


def write_trace(path: str, profile: Profile, gpu: Gpu | None, launch: Launch) -> None:
    """Write the operators of the step on a timeline, for chrome://tracing and Perfetto.

    Raises:
        UsageError: The file cannot be written.
    """
    import json
    from pathlib import Path

    from preflight.errors import UsageError

    assert gpu is not None
    found = step_time(profile.work, gpu, link_of(gpu, launch))
    assert found is not None
    rows = {0: "kernels", 1: "collectives"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": row, "name": "thread_name", "args": {"name": name}} for row, name in rows.items()
    ]
    for span in found.mid.spans:
        kind = profile.work.kinds[span.kind]
        told = {"bytes": kind.bytes, "flop": kind.flop, "dtype": kind.dtype, "shape": list(kind.shape)}
        events.append(
            {
                "ph": "X", "pid": 0, "tid": int(kind.ranks is not None), "cat": kind.phase, "name": kind.operator,
                "ts": span.start * 1e6, "dur": span.seconds * 1e6, "args": told,
            }
        )  # fmt: skip
    content = {"displayTimeUnit": "ms", "otherData": {"gpu": gpu.title, "how": "estimated"}, "traceEvents": events}
    try:
        Path(path).write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--chrome-trace {path}: {error.strerror or error}") from None


def link_of(gpu: Gpu, launch: Launch) -> Link | None:
    """Return the link between the ranks of one node; None between nodes, and where the GPU has none that is known."""
    from preflight.catalog.hardware import load_link

    name = gpu.fabric or gpu.host_link
    return load_link(name) if name is not None and (launch.nodes or 1) == 1 else None


def note_of(profile: Profile, gpu: Gpu | None, launch: Launch) -> list[str]:
    """Say what the time of a step leaves out."""
    notes = []
    if gpu is not None and any(kind.ranks for kind in profile.work.kinds) and link_of(gpu, launch) is None:
        notes.append("the time of a step leaves out communication: what links the ranks is not known")
    if profile.work.order:
        notes.append("the time of a step is estimated operator by operator, without loading data")
    return notes


def _interval(value: Interval) -> dict[str, float]:
    return {"low": value.low, "mid": value.mid, "high": value.high}


def _tokens(profile: Profile) -> int:
    """Return the tokens of a step: rows and columns looked up in the largest table of embeddings, in all its forwards."""
    tables: Counter[int] = Counter()
    for at in profile.work.order:
        kind = profile.work.kinds[at]
        if kind.operator == "embedding" and kind.phase == "forward" and kind.table and len(kind.shape) == 3:
            tables[kind.table] += kind.shape[0] * kind.shape[1]
    return tables[max(tables)] if tables else 0


def _bottleneck(busy: float, communication: float, host: float) -> str:
    shares = {"compute": busy, "exposed_communication": communication, "host": host}
    return max(shares, key=lambda name: shares[name])


def _top(profile: Profile, found: StepTime) -> list[dict[str, Any]]:
    times: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for at in profile.work.order:
        kind = profile.work.kinds[at]
        if found.durations[at]:
            times[(kind.operator, kind.phase)] += found.durations[at]  # type: ignore[assignment]
            counts[(kind.operator, kind.phase)] += 1
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
    return [
        {"operator": name, "phase": phase, "calls": counts[(name, phase)], "seconds": seconds}
        for (name, phase), seconds in ranked
    ]
