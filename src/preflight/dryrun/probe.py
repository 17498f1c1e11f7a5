"""Runs a script once more with real numbers, on the CPU: how small it has to be made, and what to try when that fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from preflight.dryrun import launch
from preflight.dryrun.launch import Job, Plan
from preflight.errors import PreflightError
from preflight.vocabulary.probe import Probe
from preflight.vocabulary.profile import Profile

SECONDS = 60.0
"""A probe ends after so long, with what it has seen by then."""
_FAST = 40e9
"""Operations that two cores do in a second, fp32. Measured: 1024 x 1024 matrix products, 43e9."""
_AS_IT_IS = 2 * _FAST
"""A step of so many operations is run as it is."""
_SMALL_MODEL, _LARGE_MODEL = 60e6, 1e9
"""Parameters up to which a model stays as it is, and from which its width has to go down too.

512 tokens cost 6 x 512 operations a parameter, forward and backward: 60 million are 4.6 seconds a step.
"""
_LEAST = 5.0
"""Seconds without which no probe is begun."""
_NEXT = 0.75
"""After this share of the time no other try is begun."""


def probe(job: Job, profile: Profile, run: Callable[[Job], Profile] | None = None) -> Probe:
    """Run a script with real numbers, as large as the time allows; say why not where it cannot be done.

    Args:
        job: The dry run that was made; its seconds are those that are left.
        profile: What it saw.
        run: Runs a job; by default in a process of its own.
    """
    reason = _hopeless(job, profile)
    if reason is not None:
        return Probe(outcome="left out", reason=reason)
    if job.seconds < _LEAST:
        return Probe(outcome="left out", reason="the time limit left none for it")
    limit = min(SECONDS, job.seconds)
    began, tried = time.monotonic(), Probe(outcome="left out", reason="nothing was tried")
    for plan in plans(profile):
        left = limit - (time.monotonic() - began)
        if left < (1 - _NEXT) * limit and tried.reason != "nothing was tried":
            break
        tried = _try(job, plan, left, run or launch.dry_run)
        if tried.outcome != "done" and tried.assumptions:
            # Noise need not be what the script can read: a class that there is not, a form that it does not know.
            left = limit - (time.monotonic() - began)
            again = _try(job, msgspec.structs.replace(plan, noise=False), left, run or launch.dry_run)
            tried = again if again.outcome == "done" else tried
        if tried.outcome == "done":
            break
    return msgspec.structs.replace(tried, seconds=time.monotonic() - began)


def _hopeless(job: Job, profile: Profile) -> str | None:
    if profile.steps == 0:
        return "the dry run made no optimizer step"
    if profile.outcome == "failed" and profile.steps < 2:
        return "the script fails in the dry run"
    if int(job.environment.get("WORLD_SIZE", "1")) > 1 and any("FSDP" in m.kind for m in profile.modules):
        return "a sharded model is not run on one process"
    return None


def plans(profile: Profile) -> list[Plan]:
    """Return what to try, the best first: the script as it is where that is cheap, a smaller one where it is not."""
    parameters = sum(_elements(p.shape) for p in profile.parameters)
    operations = _operations(profile)
    if parameters <= _SMALL_MODEL and operations <= _AS_IT_IS:
        return [Plan(), Plan(samples=4)]
    tokens = 128 if operations > 20 * _AS_IT_IS or parameters > _SMALL_MODEL else None
    if parameters <= _SMALL_MODEL:
        # Half the size, four times the layers' cost: what a smaller batch does not save, fewer tokens do.
        more = [Plan(samples=4, tokens=128)] if tokens is None else [Plan(samples=4), Plan(samples=2, layers=4)]
        rest = [Plan()] if operations <= 10 * _AS_IT_IS else []
        return [Plan(samples=4, tokens=tokens), *more, *rest]
    width = 256 if parameters > _LARGE_MODEL else None
    return [
        Plan(samples=4, tokens=128, layers=4, width=width),
        Plan(samples=4, tokens=None, layers=2, width=128),
        Plan(samples=None, tokens=None, layers=2, width=128),
        *([Plan(samples=4)] if parameters < 3 * _SMALL_MODEL else []),
    ]


def _elements(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


def _half_of_memory() -> int | None:
    """Half of the memory that the host has; None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _operations(profile: Profile) -> float:
    """Floating-point operations of one optimizer step; infinite where they were not counted."""
    kinds = profile.work.kinds
    total = sum(kinds[at].flop or 0.0 for at in profile.work.order)
    return total or float("inf")


def _try(job: Job, plan: Plan, seconds: float, run: Callable[[Job], Profile]) -> Probe:
    alone = {name: value for name, value in job.environment.items() if name not in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    if job.environment:
        alone |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    smaller = msgspec.structs.replace(
        job,
        plan=plan,
        seconds=seconds,
        snapshot=None,
        devices=1,
        environment=alone,
        memory_bytes=job.memory_bytes or _half_of_memory(),
        changes=(),
    )
    try:
        seen = run(smaller)
    except PreflightError as error:
        return Probe(outcome="left out", reason=": ".join(filter(None, (str(error), error.hint))))
    found = seen.probe or Probe()
    if seen.outcome == "failed":
        at = f" at {seen.frames[-1].file.rsplit('/', 1)[-1]}:{seen.frames[-1].line}" if seen.frames else ""
        reason = f"{seen.error}{at}: {(seen.message or '').splitlines()[0][:160] if seen.message else ''}"
        if found.steps < 2:
            how = f" ({'; '.join(found.changed)})" if found.changed else ""
            reason = f"on the CPU the script fails{how} with {reason}"
            return Probe(outcome="left out", reason=reason, assumptions=seen.assumptions)
    if found.steps == 0:
        late = seen.outcome == "time is up"
        return Probe(
            outcome="left out", reason=f"no step was done in {seconds:.0f} s" if late else "no step was done on the CPU"
        )
    return msgspec.structs.replace(found, assumptions=seen.assumptions)
