"""The pipeline of a step: what every stage works on, over time."""

from __future__ import annotations

from typing import Any

from preflight.report.pictures.axis import percent, round_step
from preflight.vocabulary.plan import Pipeline, PipelineSpan
from preflight.vocabulary.quantity import format_seconds

KINDS = {"F": "forward", "B": "backward", "W": "gradients of weights"}
UNITS = 10_000
"""Width of the drawing in units of its own."""
ROW = 22
_SINGLE = 320
"""Up to so many pieces, each can be pointed at; more of them are drawn as one path a stage and kind."""
_SCHEDULES = {
    "1f1b": "one forward, one backward",
    "interleaved": "interleaved",
    "gpipe": "GPipe",
    "zb-h1": "zero bubble",
}


def pipeline_picture(line: Pipeline | None) -> dict[str, Any] | None:
    """Return a row of work for every stage; None where there is no pipeline."""
    if line is None or not line.spans:
        return None
    full = max(span.end for span in line.spans)
    stages = sorted({span.stage for span in line.spans})
    single = len(line.spans) <= _SINGLE
    used = dict.fromkeys(kind for kind in KINDS if any(span.kind == kind for span in line.spans))
    return {
        "schedule": _SCHEDULES.get(line.schedule, line.schedule),
        "seconds": format_seconds(line.seconds),
        "bubble": f"{line.bubble * 100:.1f} %",
        "micro": line.micro_batches,
        "shown": line.shown_micro_batches,
        "width": UNITS,
        "height": ROW * len(stages),
        "row": ROW,
        "kinds": [{"kind": kind, "name": KINDS[kind]} for kind in used],
        "rows": [
            _row(at, stage, [span for span in line.spans if span.stage == stage], full, single)
            for at, stage in enumerate(stages)
        ],
        "ticks": _ticks(full),
    }


def _row(at: int, stage: int, spans: list[PipelineSpan], full: float, single: bool) -> dict[str, Any]:
    busy = sum(span.end - span.start for span in spans)
    told = ", ".join(
        f"{len(of)} x {KINDS[kind]} ({format_seconds(sum(span.end - span.start for span in of) / len(of))} each)"
        for kind in KINDS
        if (of := [span for span in spans if span.kind == kind])
    )
    row: dict[str, Any] = {
        "y": at * ROW,
        "name": f"stage {stage}",
        "title": f"stage {stage}: {told}; waits {100 * (1 - busy / full):.1f} % of what is drawn",
        "pieces": [],
        "paths": [],
    }
    if single:
        row["pieces"] = [_piece(span, full) for span in spans]
        return row
    paths: dict[str, list[str]] = {}
    for span in spans:
        first, last = (round(UNITS * moment / full) for moment in (span.start, span.end))
        paths.setdefault(_shade(span), []).append(f"M{first} 0h{last - first}v1h{first - last}z")
    row["paths"] = [{"kind": kind, "path": "".join(pieces)} for kind, pieces in paths.items()]
    return row


def _piece(span: PipelineSpan, full: float) -> dict[str, Any]:
    chunk = f", chunk {span.chunk}" if span.chunk else ""
    return {
        "kind": _shade(span),
        "x": percent(span.start, full),
        "width": percent(span.end - span.start, full),
        "title": f"stage {span.stage}, {KINDS[span.kind]} of micro-batch {span.micro}{chunk}: "
        f"{format_seconds(span.end - span.start)} from {format_seconds(span.start) if span.start else '0 s'}",
    }


def _shade(span: PipelineSpan) -> str:
    """Neighbouring micro-batches are told apart by shade."""
    return span.kind + ("-odd" if span.micro % 2 else "")


def _ticks(full: float) -> list[dict[str, Any]]:
    step = round_step(full, 5)
    return [
        {"at": percent(number * step, full), "name": format_seconds(number * step) if number else "0"}
        for number in range(int(full / step) + 1)
    ]
