"""Says when another round of a loop would show nothing new.

- A training loop ends after enough optimizer steps.
- A loop that only evaluates ends after two rounds that did the same on the GPU: operators, bytes asked for, bytes left.
  Rounds that are never alike, since their batches are not, need not go on after ``ENOUGH`` of them.
- Evaluation that records a graph, for want of ``no_grad``, is told from training by the graph's being dropped at the end of
  each round; it needs ``SURE`` rounds that did the same. A network in training mode is taken to be evaluated where the loop
  goes over batches: other loops may play in an environment, and begin to train later.
- Text that grows from round to round is what is trained on in reinforcement learning: such a loop is cut only after an
  optimizer step, and not where a run of it in full was short.
- A loop that only accumulates gradients, and has done so before, goes on with its last round after three that did the same.
- Inside a module, loops may be the layers of a network. Only one that records no graph and calls the very same modules in
  each round, as a diffusion model does that takes the noise out step by step, ends after ``SURE`` alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.loops import Loop, Rounds

ENOUGH = 16
"""Rounds of an evaluation that have shown what there is, though no two were alike."""
SURE = 3
"""Further rounds like the first one, where fewer could deceive."""
SHORT = 10.0
"""Seconds that a loop may always take, once it is known to take no more."""


class Judge:
    """Says of a loop whether it may end.

    Args:
        rounds: Where loops are noted.
        loop: The loop.
    """

    def __init__(self, rounds: Rounds, loop: Loop) -> None:
        self.rounds, self.loop, self.gpu = rounds, loop, rounds.gpu
        progress = self.gpu.progress
        self.backwards, self.graphs, self.training = progress.backwards, progress.graph_calls, progress.training_calls
        self.recorded = torch.is_grad_enabled()
        self.last: tuple[int, int, int] | None = None
        self.called: list[int] = []
        self.level = 0
        self.alike = self.calling = 0
        self.made = [0, 0]

    def begin_round(self) -> None:
        """A round begins."""
        gpu, progress = self.gpu, self.gpu.progress
        self.loop.rounds += 1
        if self.loop.rounds == ENOUGH // 2:
            self.level = gpu.ledger.allocated
        self.before = (gpu.operators, gpu.ledger.allocated, gpu.ledger.asked)
        self.calls, self.passes, self.work = progress.calls, progress.backwards, len(gpu.work.order)
        self.made = [self.made[1], gpu.ledger.made]

    def enough(self) -> bool:
        """Whether the loop may end after the round that has just been; it is then noted as cut."""
        gpu, progress, loop = self.gpu, self.gpu.progress, self.loop
        operators, allocated, asked = self.before
        done = (gpu.operators - operators, gpu.ledger.allocated - allocated, gpu.ledger.asked - asked)
        self.alike = self.alike + 1 if done == self.last else 0
        self.calling = self.calling + 1 if progress.calls > self.calls else 0
        self.last = done
        evaluates = progress.backwards == self.backwards
        if loop.depth:
            enough = self._repeats(done[1])
        elif evaluates:
            enough = self._evaluated(done[1])
        else:
            enough = progress.step - loop.steps >= progress.limit and not loop.words
        if enough and (loop.size is None or loop.size > loop.rounds):
            loop.cut = True
            self.rounds.cut[loop.name] = (loop.rounds, loop.size)
            if loop.depth and loop.size is not None:
                gpu.work.again(self.work, loop.size - loop.rounds)
            elif evaluates:
                self._tell_growth(done[1])
            elif self.rounds.modes is not None:
                self.rounds.modes.loop_ended(loop.begun)
        return enough

    def _evaluated(self, kept: int) -> bool:
        """Whether a loop without a backward pass has shown enough.

        Args:
            kept: Bytes that the round has left behind.
        """
        progress, loop = self.gpu.progress, self.loop
        trains = progress.training_calls > self.training
        if not self.calling:
            return False
        if progress.graph_calls > self.graphs:
            return loop.data and self.alike >= SURE and (kept == 0 or not trains)
        if self.recorded and trains and not loop.data:
            return False
        return bool(self.alike) or (self.calling >= ENOUGH and (loop.data or self._known_to_be_long()))

    def _known_to_be_long(self) -> bool:
        """Whether a loop whose rounds differ is none that training waits for, or has not been seen to be short."""
        return self.loop.steps > 0 and self.rounds.seconds.get(self.loop.name, SHORT + 1) > SHORT

    def _repeats(self, kept: int) -> bool:
        """Whether a loop inside a module calls the same modules in each round, without a graph, and leaves nothing."""
        loop = self.loop
        called = self.gpu.progress.called_in(loop.depth)
        same, self.called = bool(called) and called == self.called, called
        if not same or kept:
            self.alike = 0
        return self.alike >= SURE and not self.recorded and (loop.size is None or loop.size >= ENOUGH)

    def _tell_growth(self, kept: int) -> None:
        """A loop that only evaluates is cut although its rounds keep more and more."""
        rounds = self.loop.rounds
        if not self.alike:
            kept = (self.gpu.ledger.allocated - self.level) // max(1, rounds - ENOUGH // 2 + 1)
        if kept > 0 and self.rounds.growth is not None:
            self.rounds.growth.end_loop(self.loop, kept, self.made[0], bool(self.alike))

    def accumulates(self) -> bool:
        """Whether the rounds only add to the gradients, all alike, as in a whole run of this loop before."""
        progress = self.gpu.progress
        plain = progress.step == self.loop.steps and progress.backwards > self.passes and not self.loop.depth
        level = self.alike >= 2 and self.last is not None and self.last[1] == 0
        return plain and level and self.loop.name in self.rounds.accumulating

    def skip(self, count: int) -> None:
        """Leave rounds out; their work is that of the last one."""
        self.rounds.cut[self.loop.name] = (self.loop.rounds + 1, self.loop.size)
        self.gpu.work.again(self.work, count)

    def end(self) -> None:
        """The loop has come to its end by itself."""
        progress = self.gpu.progress
        if progress.backwards > self.backwards and progress.step == self.loop.steps:
            self.rounds.accumulating.add(self.loop.name)
        else:
            self.rounds.accumulating.discard(self.loop.name)
