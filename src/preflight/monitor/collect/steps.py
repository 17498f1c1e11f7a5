"""Steps of optimizers: what they find, what they change, and which of them count."""

from __future__ import annotations

import sys
from typing import Any

from . import accumulation, grain, units
from .ahead import Ahead
from .clearings import Clearings
from .closures import Closures, Given, closure_of
from .coarse import Coarse
from .enrolled import Enrolled
from .entry import Entry
from .groups import Groups, held_at_zero, marked, rehearsed, set_aside
from .patching import Patches
from .recorder import Recorder
from .rewritten import Rewritten
from .roster import Held
from .shadows import Shadows
from .state import States
from .writes import Writes

_BEFORE_EVERY = 4  # iterations in which norms of parameters before a step are taken, beside the detailed ones
_CLOSER = 3  # iterations after parameters were frozen, freed or added in which what no optimizer holds is looked at
_MOST_CLOSER = 4  # how often that is done; some programs do so in every step
_FIRST = 2  # steps of each optimizer that are always looked at: what it began with, and on which weights
_IDLE = 16  # steps of others in a row after which the optimizer whose steps count is one that is not used any more
_MOST_HANDS = 8  # steps whose norms would not be taken and are, because something was written to since the one before
_STATES_EVERY = 10  # detailed iterations in which an optimizer's own state is looked at


class Steps:
    """Hooks around the steps of every optimizer of the process."""

    def __init__(
        self, recorder: Recorder, enrolled: Enrolled, states: States, clearings: Clearings, rewritten: Rewritten
    ) -> None:
        self.recorder = recorder
        self.enrolled = enrolled
        self.variables = enrolled.variables
        self.states = states
        self.clearings = clearings
        self.rewritten = rewritten
        self.groups = Groups(recorder)
        self.writes = Writes()
        self._open: dict[int, Entry] = {}
        self._opened_in = 0
        self._closures = Closures(recorder)
        self._closer = _MOST_CLOSER
        self._closer_until = 0  # the iteration from which on nothing is looked at closer after a thaw or a newcomer
        self._steps: dict[int, int] = {}
        self._early = recorder.settings.detail_first  # steps of the first optimizer with looks at what does not step
        self._unheld = 0  # variables of no optimizer, when they were last looked at
        self._casts: dict[int, int] = {}
        self._shadows = Shadows(recorder)
        self._coarse = Coarse(recorder)
        self._ahead = Ahead(recorder, enrolled.variables)
        self._hands = 0  # steps that found parameters written to, where nothing else would have been looked at
        self._idle = 0  # steps of other optimizers since the last one of that whose steps count

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        module = sys.modules["torch.optim.optimizer"]
        patches.keep(module.register_optimizer_step_pre_hook(self._before))
        patches.keep(module.register_optimizer_step_post_hook(self._after))

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Given | None:
        recorder = self.recorder
        if recorder.away or recorder.torch.compiler.is_compiling():
            return None
        if not recorder.active() or recorder.gave_up("step"):
            return None
        if rehearsed(optimizer):
            return None
        awaited = self._closures.awaited
        if (self._open or awaited) and recorder.iteration > self._opened_in + 1:
            self._open.clear()  # a step that ended with an exception
            awaited.clear()
        if (self._open or awaited) and id(optimizer) not in self._open:
            return None  # a step within another one's: the optimizer that a wrapper holds
        closure = closure_of(args, kwargs) is not None
        given: Given | None = None
        with recorder.work("step"):
            if not recorder.trainers.steps():
                return None
            self._opened_in = recorder.iteration
            if closure and self._closures.waits(optimizer):
                given = self._closures.given(optimizer, args, kwargs, lambda well: self._evaluated(optimizer, well))
            else:
                self._begin(optimizer, closure)
        return given

    def _evaluated(self, optimizer: Any, well: bool) -> None:
        """The closure of a step has been called for the first time: the gradients that the step uses are there."""
        awaited = self._closures.awaited.get(id(optimizer))
        if awaited is None or not well:
            self._closures.awaited.pop(id(optimizer), None)
            return
        with self.recorder.work("step"):
            self._opened_in = self.recorder.iteration
            self._begin(optimizer, not awaited.untouched, awaited.untouched)

    def _begin(self, optimizer: Any, closure: bool, look: bool = True) -> None:
        """Open a step; ``look`` where its parameters are still as they were before it."""
        recorder = self.recorder
        index = self.variables.index_of(optimizer)
        if index < 0:
            index = self.enrolled.register(optimizer)
        self._lead(index)
        self.enrolled.take_in()
        known = self.variables
        flags = known.flags_changed()
        if flags and self._closer > 0 and recorder.iteration + 1 >= recorder.detail_until:
            self._closer -= 1
            self._closer_until = recorder.iteration + _CLOSER
        if flags or (known.changed() if recorder.detail else known.stale or self.enrolled.names.changed):
            self.variables.refresh()
            if not flags:
                self._meet(index)
        name = f"optimizer{index}:{type(optimizer).__name__}"
        exact = recorder.detail
        held = known.lot(index)
        written = self.writes.since(held)
        young = self._steps.get(index, 0) < _FIRST
        closer = recorder.iteration < self._closer_until
        hand = bool(written) and not recorder.norms and recorder.norms_every > 0
        if hand:
            self._hands += 1  # what is written again and again is the program's own, and no surprise
            hand = self._hands <= _MOST_HANDS
        # Where several optimizers step in turn, the detailed iterations are over before the first of them has gone round.
        early = index == recorder.primary and self._steps.get(index, 0) < self._early
        if look and (recorder.norms or young or early or closer or hand):
            self.states.gradients("before_step", index, False, held)
            if exact or written or young or early or recorder.evaluated or recorder.iteration % _BEFORE_EVERY == 0:
                self.states.parameters("before_step", index, exact, held)
            if (exact or early or closer) and self._others(index):
                rest = self._unstepped(index)
                self.states.untrained("before_step", rest)
                self.states.gradients("before_step", -1, False)
                recorder.within("ahead", self._ahead.look)
                if exact and index == recorder.primary:
                    recorder.within("shadows", self._shadows.look, held.pairs(), rest)
                    recorder.within("coarse", self._coarse.look, held.pairs(), rest)
        if self._steps.get(index, 0) == units.AFTER and recorder.wants(units.NAME):
            units.look(recorder, held.pairs())
        if self._steps.get(index, 0) == grain.AT and recorder.wants(grain.NAME):
            recorder.within("grain", grain.look, recorder, optimizer, held.pairs())
        self.groups.tell(optimizer, name, index)
        seen: dict[str, Any] = {"closure": closure}
        if written:
            seen["written"] = written
        if not self._steps.get(index, 0) and self.writes.replaced(held):
            seen["replaced"] = True
        if self.rewritten.replaced(index):
            seen["rewritten"] = True
        if held_at_zero(optimizer):
            seen["held_at_zero"] = True
        aside = set_aside(optimizer)
        if aside:
            seen["aside"] = aside
        apart = marked(optimizer)
        if apart:
            seen["marked"] = apart
        amidst = accumulation.amidst()
        if amidst is not None:
            seen["accumulating"] = amidst
        if recorder.detail and recorder.casts_cleared:
            seen["casts_idle"] = recorder.casts_idle
        recorder.casts_idle = 0
        thawed, still = self.enrolled.thawed(optimizer, held)
        if thawed:
            seen.update({"thawed": thawed, "still_frozen": still})
        if index == recorder.primary or recorder.detail or young:
            seen["states"] = len(optimizer.state)
        self._opened_in = recorder.iteration
        entry = self._open[id(optimizer)] = recorder.enter("step", name, seen)
        inside = "autocast" in entry.context and recorder.torch.is_autocast_cache_enabled()
        if inside:
            # Copies of the weights in the lower precision live until the outermost autocast context ends.
            seen["casts_kept"] = self._casts.get(index) == recorder.casts_cleared
        self._casts[index] = recorder.casts_cleared if inside else -1

    def _lead(self, index: int) -> None:
        """Count the steps of the first optimizer, and of another one when that is gone or no longer steps."""
        recorder = self.recorder
        first = recorder.primary
        self._idle = 0 if index == first else self._idle + 1
        if first is None or self._idle > _IDLE or not self.variables.lives(first):
            recorder.primary, self._idle = index, 0

    def _meet(self, index: int) -> None:
        """Look closer at what no optimizer holds where there is more of it than before, in the middle of a training."""
        late = index == self.recorder.primary and self._steps.get(index, 0) >= max(self._early, _FIRST)
        if late and self._closer > 0 and len(self.variables.living(-1)) > self._unheld:
            self._closer -= 1
            self._closer_until = max(self._closer_until, self.recorder.iteration + _CLOSER)

    def _others(self, index: int) -> bool:
        """Whether to look at what no optimizer holds: with one of them, and with any where there is more than before."""
        if index != self.recorder.primary and self._steps.get(index, 0):
            return False
        count = len(self.variables.living(-1))
        more, self._unheld = count > self._unheld, count
        return more or index == self.recorder.primary

    def _unstepped(self, index: int) -> Held:
        """What no optimizer holds, and what is held by one that has not stepped: targets may have one that never does."""
        found = self.variables.living(-1)
        for other, _ in self.variables.optimizers():
            if other != index and not self._steps.get(other, 0):
                found += self.variables.living(other)
        return sorted(found, key=lambda one: one[0].ident)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder = self.recorder
        if recorder.at_step is not None and recorder.away:
            recorder.at_step(optimizer)
            return
        entry = self._open.pop(id(optimizer), None)
        if entry is None and id(optimizer) not in self._closures.awaited:
            return
        with recorder.work("step"):
            if not recorder.trainers.alone():
                return
            if entry is None:  # it never called its closure
                self._begin(optimizer, True, False)
                entry = self._open.pop(id(optimizer))
            if id(optimizer) in self._closures.awaited and entry.args is not None:
                entry.args["closure"] = not self._closures.ended(optimizer)
            recorder.leave(entry)
            index = self.variables.index_of(optimizer)
            held = self.variables.lot(index)
            self.writes.stepped(held)
            steps = self._steps[index] = self._steps.get(index, 0) + 1
            if recorder.norms_after or recorder.exact_after or steps <= _FIRST:
                self.states.parameters("after_step", index, recorder.exact_after, held)
                if recorder.detail and (steps <= _FIRST or recorder.iteration % _STATES_EVERY == 0):
                    self.states.optimizer("after_step", optimizer, index)
                    if index == recorder.primary:
                        self.states.buffers("after_step", True)
            recorder.trained = True
            recorder.waiting = 0
            self.clearings.stepped(index)
            if index == recorder.primary:
                self._shadows.stepped()
                recorder.stepped = True
                recorder.evaluated = False
                recorder.step += 1
                if recorder.at_step is not None:
                    recorder.at_step(optimizer)

    def resume(self) -> None:
        """Take what optimizers hold now for what their last steps left: those steps were not seen."""
        for index, _ in self.variables.optimizers():
            self.writes.stepped(self.variables.lot(index))
