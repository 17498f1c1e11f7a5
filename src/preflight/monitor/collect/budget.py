"""Keeps the recorder's share of the run's time: measures it, and thins out what is recorded.

What a detailed iteration costs beyond the others is known from the first ones, so that how rare they have to be need
not be tried out; they become rarer in powers of two, so that ranks that thin differently still share some.
A run is young as long as each iteration can be recorded in detail within the budget, or, where steps are short, with
some seconds in all: most mistakes show soon, and what begins later than the first iterations is then seen at once too.
Passes that come again from one place with nothing between, as in a rollout, are only counted where all of them together with the
rest cost too much (see ``repeated.py``): what is asked of them is in the first few.
Where the other iterations cost too much by themselves, the norms are taken less often, as far as that saves anything:
those of gradients first, and last those of the parameters after a step, which show what another hand writes to.
Where what is left costs more than twice the budget even without norms and detail, the recorder pauses (see ``pauses.py``).
What the writer's thread spends counts too: it takes a core, or the interpreter, from the program.
Every change is told in the trace, so that nothing is missed without a word.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from .columns import REPEATED
from .iterations import AFTER_EACH
from .pauses import Costs, Pauses
from .recorder import Recorder
from .repeated import Repeated

_LONGEST = 1024
_FEWEST = 16
_WINDOW = 8  # iterations between two decisions
_SETTLE = 3  # first iterations that are not counted: imports, warm-up of kernels
_EARLY = 200  # iterations in which short steps may be recorded at a cost that a long run makes up for
_EARLY_COST = 5e-3  # seconds per iteration: 200 of them are one second of the whole run
_SHORT = 0.1  # seconds of an iteration up to which it is short
_YOUNG_SHORT = 0.075  # and up to which detail in each is allowed beyond the budget while the run is young
_YOUNG_COST = 2.0  # seconds that a run of short steps may give for detail in each of its iterations, in all
# A clock around the recorder's work does not see what that costs the program itself: hooks are called, and what the
# program had in the caches has to be read anew. A fifth of the budget is kept for it: so recorded, `gpt-long` of
# `overhead.py` took 1.6 % more of its main thread's time and 2.5 % more of its process's, on cores with a load of 14 to 19.
_SEEN = 0.8
_FEW = (4, 1)
"""How many passes of one place without gradients are told that come one after the other, where not all of them are."""
_FORGETS = 0.9  # of what they cost at most, what is left of it with each decision: they may come in few iterations
_NOTHING = 0.05  # the share of what is allowed that is not worth giving something up for
# How many times what is allowed the least costs that can be told, from which on the recorder pauses: twice the budget.
# Until then it sees every iteration; what it sees after a pause is held against fewer relations.
_PAUSES = 2 / _SEEN
_ROOM = 0.75  # the share of what is allowed up to which something is taken more often again
# Passes over parameters and gradients in an iteration with norms: the gradients, every fourth time the parameters before
# the step, and the parameters after it; of the last one, the share of what such an iteration costs more than another one.
_AFTER, _BEYOND = 1 / 2.25, 1 / 1.25
clock = time.perf_counter


class Budget:
    """Decides at the end of iterations how much is recorded in the next ones."""

    def __init__(self, recorder: Recorder, repeated: Repeated, pauses: Pauses | None = None) -> None:
        self.recorder = recorder
        self.pauses = pauses
        self.repeated = repeated
        self.share = recorder.settings.budget / 100 * _SEEN
        self.most_detail = recorder.settings.detail_every
        self.most_norms = recorder.settings.norms_every
        self.most_repeats = recorder.settings.repeats
        self._now = clock()
        self._spent = recorder.spent
        # Of the iterations since the last decision: seconds without the recorder, and with it the costs of those in
        # which nothing is taken in detail, without norms and with them.
        self._count = 0
        self._work = 0.0
        self._costs: dict[bool, list[float]] = {False: [], True: []}
        # Seconds beyond the budget that are left for detail in each iteration, of a run that is young.
        self._young = recorder.settings.detail_young > recorder.settings.detail_first
        self._left = _YOUNG_COST
        self._dear: list[float] = []  # costs of the iterations that belong to the next detailed one
        # In seconds, as far as it was seen yet: what an iteration costs in which nothing is looked at, one with norms,
        # and a detailed one, with the fingerprints taken before it.
        self._bare: float | None = None
        self._normed: float | None = None
        self._detail: float | None = None
        self._each = 0.0  # and to tell of a pass
        self._repeats = 0.0  # the share of the run's time that to tell of all of them would take, at most

    def boundary(self) -> None:
        """An iteration has ended."""
        recorder = self.recorder
        now, spent = clock(), recorder.spent
        cost = (spent - self._spent) / 1e9
        work = max(now - self._now - cost, 0.0)
        self._now, self._spent = now, spent
        if self.pauses is not None and self.pauses.on:
            self._begin_anew()
            return
        number = recorder.iteration
        if self.share <= 0 or number < _SETTLE:
            return
        self._count += 1
        self._work += work
        self._young = self._young and number + 1 < recorder.detail_until
        if self._young and number + 1 >= recorder.settings.detail_first:
            self._grow_up(number, cost)
        if self._detailed(number):
            self._dear.append(cost)
            taken, self._dear = sum(self._dear) - self._usual() * (len(self._dear) - 1), []
            self._detail = _renewed(self._detail, [taken])
        elif self._detailed(number + 1):
            self._dear.append(cost)
        else:
            self._costs[recorder.norms_every > 0 and number % recorder.norms_every == 0].append(cost)
        # A decision covers at least one iteration with norms, or the sample would say nothing about their cost.
        if number + 1 >= recorder.detail_until + _WINDOW and self._count >= max(_WINDOW, recorder.norms_every):
            self._bare = _renewed(self._bare, self._costs[False])
            self._normed = _renewed(self._normed, self._costs[True])
            self._decide(number)
            self._count, self._work, self._costs = 0, 0.0, {False: [], True: []}

    def _begin_anew(self) -> None:
        """Know nothing of what iterations cost: what was known is of another time."""
        self._count, self._work, self._costs, self._dear = 0, 0.0, {False: [], True: []}, []
        self._bare = self._normed = None
        self._young = False

    def _grow_up(self, number: int, cost: float) -> None:
        """Leave the following iterations to the sample where detail in each of them is no longer to be borne."""
        work = self._work / self._count
        self._left -= max(cost - self.share * work, 0.0)
        if self._left < 0 or (work >= _YOUNG_SHORT and cost > self._own_share() * work):
            self._young = False
            self.recorder.detail_until = number + 1

    def _own_share(self) -> float:
        """The share that is left for the recorder's work in the program's own threads.

        What the writer spends beside it is of the same rows: it is taken to be in proportion.
        """
        own, beside = self.recorder.spent, self.recorder.beside()
        return self.share * own / (own + beside) if own > 0 else self.share

    def _detailed(self, number: int) -> bool:
        recorder = self.recorder
        return number < recorder.detail_until or (recorder.detail_every > 0 and number % recorder.detail_every == 0)

    def _usual(self) -> float:
        """What recording an iteration costs in which nothing is taken in detail, since the last decision."""
        plain = [*self._costs[False], *self._costs[True]]
        return sum(plain) / len(plain) if plain else 0.0

    def _decide(self, number: int) -> None:
        recorder = self.recorder
        work = max(self._work / self._count, 1e-9)
        price = self._price(work)
        norms, detail = recorder.norms_every, recorder.detail_every
        share = price.share(norms, detail)
        allowed = self._own_share()
        if self._repeated(share, allowed):
            return
        if number < _EARLY and work < _SHORT:
            allowed = max(allowed, _EARLY_COST / work)
        elif self._pauses(price, allowed):
            return
        half = max(self.most_norms, norms // 2)
        if norms > half and (
            price.share(half, detail) <= _ROOM * allowed or price.saved(half, norms) <= _NOTHING * allowed
        ):
            self._take(half, price)
            self._tell("norms", half, share)
        elif share > allowed:
            self._thin(price, allowed)
        elif norms == half and detail > self.most_detail and price.share(norms, max(detail // 2, 1)) <= _ROOM * allowed:
            recorder.detail_every = max(self.most_detail, detail // 2)
            self._tell("detail", recorder.detail_every, share)

    def _pauses(self, price: _Price, allowed: float) -> bool:
        """Whether the least that can be told costs so much that the recorder pauses."""
        recorder = self.recorder
        if self.pauses is None or price.share(0, 0) <= _PAUSES * allowed:
            return False
        if recorder.spent + recorder.beside() < recorder.settings.grace * 1e9:
            return False
        light = price.bare + price.norms + price.after
        return self.pauses.begin(price.work, Costs(light, price.detail))

    def _repeated(self, share: float, allowed: float) -> bool:
        """Tell of fewer passes that come again, or of more; say whether that was changed, and what all costs with it."""
        recorder, repeated = self.recorder, self.repeated
        told, left, spent = repeated.told, repeated.left, repeated.spent / 1e9
        repeated.told = repeated.left = repeated.spent = 0
        if told:
            self._each = _renewed(self._each or None, [spent / told]) or 0.0
        whole = max(self._work, 1e-9) / max(1 - share, 0.01)
        now = spent / whole
        self._repeats = max((told + left) * self._each / whole, _FORGETS * self._repeats)
        kept = recorder.repeats
        if share > allowed and now > _NOTHING * allowed and kept != _FEW[-1]:
            recorder.repeats = _FEW[_FEW.index(kept) + 1] if kept in _FEW else _FEW[0]
        elif kept > self.most_repeats and share - now + self._repeats <= _ROOM * allowed:
            recorder.repeats = self.most_repeats
        if recorder.repeats == kept:
            return False
        # What iterations cost is another thing from here on.
        self._bare = self._normed = None
        self._tell(REPEATED, recorder.repeats, share)
        return True

    def _price(self, work: float) -> _Price:
        """What things cost, as far as it is known: until an iteration without norms was seen, all of it is theirs."""
        bare, normed, every = self._bare or 0.0, self._normed, self.recorder.norms_every
        norms = max(normed - bare, 0.0) if normed is not None else 0.0
        usual = bare + norms / max(every, 1)
        detail = max((self._detail or 0.0) - usual, 0.0)
        if every <= AFTER_EACH and self._bare is not None:  # the norms after a step are in every iteration
            after = min(_BEYOND * norms, bare)
            return _Price(work, bare - after, norms, after, detail)
        return _Price(work, bare, (1 - _AFTER) * norms, _AFTER * norms, detail)

    def _thin(self, price: _Price, allowed: float) -> None:
        """Leave to the detail what the rest leaves to it, and at least a quarter; then see to the rest."""
        recorder = self.recorder
        norms, detail = recorder.norms_every, recorder.detail_every
        share = price.share(norms, detail)
        room = max(allowed - price.share(norms, 0), allowed / 4)
        if detail and detail < _LONGEST and price.of_detail(detail) > room:
            power = _FEWEST
            while power <= detail or (power < _LONGEST and price.of_detail(power) > room):
                power *= 2
            recorder.detail_every = power
            self._tell("detail", power, share)
        left = price.share(norms, recorder.detail_every)
        # Where detail was made rarer just now that may do: faults are seen by the norms of every iteration.
        late = left > (2 * allowed if recorder.detail_every != detail else allowed)
        # What calls cost by themselves does not go away with the norms, which then would be given up for nothing.
        if late and norms < _LONGEST and price.saved(norms, 2 * norms) > _NOTHING * allowed:
            self._take(max(2, norms * 2), price)
            self._tell("norms", recorder.norms_every, share)

    def _take(self, every: int, price: _Price) -> None:
        """Take norms as often; what other iterations cost changes where those after a step go from them or come back."""
        if self._bare is not None:
            self._bare = price.bare + (price.after if every <= AFTER_EACH else 0.0)
        self.recorder.norms_every = every

    def _tell(self, what: str, every: int, share: float) -> None:
        recorder = self.recorder
        recorder.put("thinned", (recorder.number(), recorder.iteration, what, every, "budget", round(share, 4)))


class _Price(NamedTuple):
    """Seconds of an iteration without the recorder, and what recording adds to it.

    Attributes:
        work: Without the recorder.
        bare: Always.
        norms: With norms, without those of the parameters after a step.
        after: Those.
        detail: In detail.
    """

    work: float
    bare: float
    norms: float
    after: float
    detail: float

    def share(self, norms_every: int, detail_every: int) -> float:
        """The share of recording, where norms and detail are taken every so many iterations (0: never)."""
        cost = self.bare + self._of_norms(norms_every) + _each(self.detail, detail_every)
        return cost / (self.work + cost)

    def of_detail(self, every: int) -> float:
        """The share of detail alone."""
        cost = _each(self.detail, every)
        return cost / (self.work + cost)

    def saved(self, often: int, rarely: int) -> float:
        """The share that norms take less where they are taken rarely."""
        return (self._of_norms(often) - self._of_norms(rarely)) / self.work

    def _of_norms(self, every: int) -> float:
        """What norms add to an iteration in the mean, where they are taken every so many iterations."""
        return _each(self.norms, every) + _each(self.after, 1 if 0 < every <= AFTER_EACH else every)


def _each(cost: float, every: int) -> float:
    return cost / every if every else 0.0


def _renewed(known: float | None, seen: list[float]) -> float | None:
    """The mean of what was seen, half of it what was known before."""
    if not seen:
        return known
    mean = sum(seen) / len(seen)
    return mean if known is None else (known + mean) / 2
