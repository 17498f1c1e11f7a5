"""What each change would do: every one is evaluated like the layout itself."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients
from preflight.plan.candidate import candidate
from preflight.plan.changes import Change, changes
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, Sensitivity
from preflight.vocabulary.quantity import GIB, Interval

# Effects smaller than these are not worth a line: half a per cent of a step and of the memory.
_LEAST = 0.005


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A change with the candidate that it leads to."""

    change: Change
    after: Candidate


def tried(request: Request, coefficients: Coefficients | None = None) -> list[Tried]:
    """Return every change of a settled request with what comes of it; those whose memory is not known are left out."""
    found = []
    for change in changes(request):
        changed = msgspec.structs.replace(request, run=change.run, parallel=change.parallel)
        after = candidate(changed, change.parallel, change.run, coefficients)
        if after.memory.device_bytes is not None:
            found.append(Tried(change=change, after=after))
    return found


def sensitivities(before: Candidate, trials: list[Tried]) -> tuple[Sensitivity, ...]:
    """Return the effects of changes, the largest saving of time first."""
    if before.memory.device_bytes is None:
        return ()
    found = [_effect(before, before.memory.device_bytes, trial) for trial in trials]
    kept = [effect for effect in found if effect is not None]
    return tuple(sorted(kept, key=lambda effect: (effect.step_change or 0.0, effect.device_bytes_change)))


def _effect(before: Candidate, memory: Interval, trial: Tried) -> Sensitivity | None:
    device = trial.after.memory.device_bytes
    if device is None:
        return None
    less = device.mid - memory.mid
    faster = None
    if before.step is not None and trial.after.step is not None:
        faster = trial.after.step.seconds.mid / before.step.seconds.mid - 1
    if abs(less) < _LEAST * memory.mid and abs(faster or 0.0) < _LEAST:
        return None
    return Sensitivity(
        key=trial.change.key, change=trial.change.title, step_change=faster, device_bytes_change=less,
        fits=trial.after.memory.fits, side_effect=trial.change.side_effect, text=_text(trial.change.title, faster, less),
    )  # fmt: skip


def _text(title: str, faster: float | None, less: float) -> str:
    """Return the effect in one line: ``tensor parallel 8 -> 4: -11 % time, +9.8 GiB``."""
    time = "" if faster is None else "same time, " if abs(faster) < _LEAST else f"{faster * 100:+.0f} % time, "
    memory = "same memory" if abs(less) < 0.05 * GIB else f"{less / GIB:+.1f} GiB"
    return f"{title}: {time}{memory}"
