"""What would make a run fit, in the order in which a person would try it."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from preflight.dryrun.fit import known
from preflight.dryrun.fit.batches import Place
from preflight.dryrun.fit.known import Known
from preflight.dryrun.fit.largest import Search, search
from preflight.dryrun.fit.rounds import LEAST, OutOfTime, Rounds, side_by_side
from preflight.dryrun.launch import Job
from preflight.dryrun.server import Server
from preflight.vocabulary.measured import Measured, Trial
from preflight.vocabulary.profile import Profile

_WORTH = 0.99
"""A change that leaves more of the peak than this saves nothing."""
RANKS = (2, 4, 8)


def measure(
    job: Job,
    seen: Profile,
    seconds: float,
    told: int | None = None,
    place: Place | None = None,
    tell: Callable[[str], None] | None = None,
) -> Measured:
    """Run a script again with changes and say what each of them does.

    Args:
        job: The script as it is.
        seen: Its run.
        seconds: The time for all runs.
        told: Its batch, as far as reading it says.
        place: Where that number stands.
        tell: Is given a line before each run.
    """
    job = msgspec.structs.replace(job, last=_last(seen))
    with Server(job.python) as server:
        return Fit(Rounds(server.run, job, seconds, tell), seen).look(told, place)


def _last(seen: Profile) -> int | None:
    """The step after which a run may be ended: the second, if the peak was reached by then, as it is in most scripts."""
    early = [moment for moment in seen.timeline if moment.step < LEAST]
    peak = max((moment.allocated for moment in early), default=0)
    reserved = max((moment.reserved for moment in early), default=0)
    return LEAST if peak >= seen.peak_bytes and reserved >= seen.reserved_bytes else None


def _idle() -> int:
    """So many runs at a time: one for each processor that has nothing to do, four at most."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(4, (os.cpu_count() or 1) - int(load)))


class Fit:
    """The search for one script.

    Args:
        rounds: Runs the script.
        seen: Its run as it is.
    """

    def __init__(self, rounds: Rounds, seen: Profile) -> None:
        job = rounds.job
        self.rounds, self.seen = rounds, seen
        self.capacity = job.capacity_bytes - (job.gpu.context_bytes or 0)
        self.capability = job.gpu.compute_capability or (9, 0)
        self.processes = _idle()
        self.left_out: list[str] = []
        self.trials: list[Trial] = []

    def look(self, told: int | None, place: Place | None) -> Measured:
        """Try everything that there is time for."""
        full = self.seen.full is not None
        self._several(known.mild(self.seen, self.capacity, self.capability))
        batches, largest = search(self.rounds, self.seen, self.capacity, told, place)
        if full:
            self._accumulate(batches)
        self._several(known.optimizers(self.seen))
        if full:
            self._shard()
            if not any(trial.fits for trial in self.trials):
                self._together(batches)
        else:
            self._several([known.sharded(8)] if not self._distributed() else [])
        return Measured(
            capacity_bytes=self.capacity,
            peak_bytes=self.seen.peak_bytes,
            reserved_bytes=max(self.seen.reserved_bytes, self.seen.peak_bytes),
            fits=not full,
            trials=tuple(self.trials),
            largest_batch=largest,
            runs=self.rounds.runs,
            seconds=round(self.rounds.spent, 1),
            left_out=tuple(self.left_out),
        )

    def _distributed(self) -> bool:
        return int(self.rounds.job.environment.get("WORLD_SIZE", "1") or 1) > 1

    def _several(self, changes: list[Known]) -> None:
        """Try changes that do not hang on one another."""
        for change, trial in zip(changes, side_by_side(self.rounds.trial, changes, self.processes), strict=True):
            if trial is None:
                self.left_out.append(change.key)
            else:
                self.trials.append(trial)

    def _one(self, change: Known, batches: Search | None = None, batch: int | None = None) -> Trial | None:
        hold = batches.hold if batches is not None else None
        arguments = None
        if hold is not None and batch is not None:
            change = msgspec.structs.replace(change, changes=(*hold.changes(batch), *change.changes))
            arguments = hold.arguments(self.rounds.job, batch)
        try:
            return self.rounds.trial(change, batch, arguments)
        except OutOfTime:
            self.left_out.append(change.key)
            return None

    def _accumulate(self, batches: Search) -> None:
        """The same batch in several parts: as few as fit."""
        hold = batches.hold
        if hold is None or not batches.fitting:
            return
        for times in _divisors(hold.before):
            if hold.before // times > batches.fitting:
                continue
            trial = self._one(_accumulation(times, hold.before), batches, hold.before // times)
            if trial is not None:
                self.trials.append(trial)
            if trial is None or trial.fits or not trial.applied:
                return

    def _shard(self) -> None:
        """FSDP over as few GPUs of one node as fit."""
        if self._distributed():
            return
        names = ("parameter", "gradient", "optimizer state")
        split = sum(self.seen.categories.get(name, 0) for name in names)
        for ranks in RANKS:
            if self.seen.peak_bytes - split * (1 - 1 / ranks) > self.capacity and ranks != RANKS[-1]:
                continue
            trial = self._one(known.sharded(ranks))
            if trial is not None:
                self.trials.append(trial)
            if trial is None or trial.fits or not trial.applied:
                return

    def _together(self, batches: Search) -> None:
        """No change suffices alone: as many of those that save something as are needed, the mildest first."""
        helps = {t.keys[0] for t in self.trials if t.applied and (t.peak_bytes or 0) < _WORTH * self.seen.peak_bytes}
        mild = [c for c in (known.EXPANDABLE, known.FUSED, known.CHUNKED, known.RECOMPUTE) if c.key in helps]
        rest = [c for c in (known.AUTOCAST, known.SMALL_ADAM) if c.key in helps]
        if not self._distributed():
            rest += [known.sharded(ranks) for ranks in RANKS if f"FSDP on {RANKS[-1]}" in helps]
        chosen: list[Known] = []
        for change in [*mild, *rest]:
            chosen = [c for c in chosen if not (c.key.startswith("FSDP") and change.key.startswith("FSDP"))]
            chosen.append(change)
            if change in mild and change is not mild[-1]:
                continue
            if self._try(chosen, batches):
                return

    def _try(self, chosen: list[Known], batches: Search) -> bool:
        """Try changes together, then also with the batch in parts; whether to stop."""
        hold = batches.hold
        parts = _divisors(hold.before) if hold is not None else []
        for times in (*((1,) if len(chosen) > 1 else ()), *parts[-1:]):
            changes = [*chosen, *([_accumulation(times, hold.before)] if hold is not None and times > 1 else [])]
            batch = hold.before // times if hold is not None and times > 1 else None
            trial = self._one(known.together(*changes), batches, batch)
            if trial is None:
                return True
            if trial.applied and trial.fits:
                self.trials.append(trial if times == 1 else self._fewer(chosen, batches, trial, parts))
                return True
        return False

    def _fewer(self, chosen: list[Known], batches: Search, found: Trial, parts: list[int]) -> Trial:
        """The same with the batch in fewer parts, as long as it fits."""
        assert batches.hold is not None
        before = batches.hold.before
        for times in parts[:-1]:
            trial = self._one(known.together(*chosen, _accumulation(times, before)), batches, before // times)
            if trial is None:
                return found
            if trial.applied and trial.fits:
                return trial
        return found


def _divisors(number: int) -> list[int]:
    """Return into how many equal parts a batch can be split, a few of them, the fewest first."""
    found = [times for times in range(2, number + 1) if number % times == 0]
    return found if len(found) <= 6 else [*found[:5], found[-1]]


def _accumulation(times: int, batch: int) -> Known:
    return Known(
        key=f"accumulate {times}",
        title=f"split the batch of {batch} into {times} of {batch // times} and accumulate their gradients before each step",
        side_effect="smaller products, which use the GPU less well; batch norm sees the smaller batch",
        changes=({"name": "accumulation", "times": times},),
    )
