"""How rules speak of a GPU that was full in a dry run."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Evidence, Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

_SHOWN = 3


def overflow_seen(run: Run, rule: Rule, told: str, fix: Fix, *phases: str) -> Iterator[Finding]:
    """The finding that a request had no room, when it came in one of these phases.

    Args:
        run: The dry run.
        rule: The rule that speaks.
        told: What happened, as the beginning of a sentence.
        fix: What to change.
        *phases: ``init``, ``forward``, ``backward``, ``optimizer``, ``eval``.
    """
    full, profile = run.profile.full, run.profile
    if full is None or full.phase not in phases:
        return
    where = f" in {full.module}" if full.module else ""
    evidence = [
        seen("asked for", full.requested, "bytes"),
        seen("in use then", full.allocated, "bytes"),
        seen("held by the allocator then", full.reserved, "bytes"),
        seen("peak, had there been room", profile.peak_bytes, "bytes"),
    ]
    capacity = run.context.capacity_bytes
    if capacity is not None:
        evidence.append(Evidence("capacity of the GPU", capacity, "bytes", "published"))
    for holder in profile.holders[:_SHOWN]:
        place = " ".join(part for part in (holder.category, holder.module, holder.line) if part)
        evidence.append(seen(f"held at the peak by {place}", holder.bytes, "bytes"))
    yield run.finding(
        rule,
        full.line,
        f"memory overflow: {told}{where} asks for {format_bytes(full.requested)} in the {_phase(full.phase)} of step {full.step}, "
        f"with {format_bytes(full.allocated)} in use; the whole step needs {format_bytes(profile.peak_bytes)}",
        evidence=evidence,
        fix=fix,
    )


def _phase(phase: str) -> str:
    return {"init": "construction", "eval": "evaluation", "optimizer": "optimizer"}.get(phase, f"{phase} pass")
