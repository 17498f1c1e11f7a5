"""Where a process is: in which iteration of its training, and each thread in which calls.

An iteration ends where the next one begins: at the next batch of a loader after something was trained in this one;
without a loader, at the next forward pass or clearing of gradients after the first optimizer's step. So it is where a
batch is trained on again and again, as by a program that learns one batch by heart.
A program that updates its parameters by itself has no step: there, some backward passes make an iteration, so that none
grows without end.
Whether an iteration is recorded in detail depends on its number alone, so that all ranks choose the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

from .entry import Thread
from .settings import Settings

_NEVER_STEPPED = 4
_NO_OPTIMIZER = 16
"""Backward passes of an iteration of a program that clears no gradients in a way that can be seen, and makes no step."""
_ON_ONE_BATCH = 16
"""Steps of the first optimizer since a loader gave a batch, from which on each is an iteration by itself."""
AFTER_EACH = 8
"""Up to how rare norms are the parameters after a step are still taken in every iteration."""


class Iterations:
    """Counts steps and iterations.

    Attributes:
        iteration: The number of the pass through the training loop, from 0.
        step: How many steps of the first optimizer have ended.
        repeats: How many passes of one place are told outside of detail; 0 means all.
        detail: Whether this iteration is recorded in detail.
        norms: Whether norms of parameters and gradients are taken in this iteration.
        norms_after: Whether norms of parameters are taken after its step: with those of gradients, and where these are
            rarer in every iteration, or in the one before; what another hand does between two steps is seen by them.
        detail_at: The number of one more iteration that is recorded in detail; -1 for none.
        exact_after: Whether fingerprints are taken after its step: in detail, or because the next one is.
        trained: Whether a backward pass or a step has happened in this iteration.
        stepped: Whether the first optimizer has stepped in this iteration.
        evaluated: Whether a model was evaluated since the last step of the first optimizer.
        training: The mode of the model that was last called with gradients.
        fetched: Whether a loader gave a batch in this iteration.
        backwards: The backward passes of this iteration.
        most_backwards: The most of them in an iteration in which the first optimizer stepped.
        primary: The first optimizer.
        optimized: Whether an optimizer was made.
        begun_by: What began this iteration: fetch, forward, zero_grad, backward.
        at_boundary: What is called when an iteration ends.
        at_turn: What is called between two iterations: the old one is told, the new one not begun.
    """

    def __init__(self, settings: Settings) -> None:
        self.iteration = 0
        self.step = 0
        self.detail_every = settings.detail_every
        self.norms_every = settings.norms_every
        self.repeats = settings.repeats
        self.detail_at = -1
        self.detail_until = max(settings.detail_first, settings.detail_young)
        self.detail = self.detail_until > 0
        self.norms = self.norms_after = True
        self.exact_after = self.detail
        self.thread = Thread()
        self.at_boundary: list[Callable[[], None]] = []
        self.at_turn: list[Callable[[], None]] = []
        self.begun_by = ""
        self.primary: int | None = None
        self.optimized = False
        self.trained = self.stepped = self.evaluated = self.fetched = False
        self.training = True
        self.backwards = 0
        self.most_backwards = 0
        self._began_at = 0  # how many steps there were when this iteration began

    def stack(self) -> list[int]:
        """The numbers of the recorded calls that this thread is in."""
        return self.thread.stack

    def begins(self, what: str) -> None:
        """A fetch of a training batch, a forward pass that trains, a clearing of gradients or a backward pass begins."""
        if what != "fetch" and self.stack():
            return  # within a call, such as a step that calls a closure
        if not self.trained:
            if what == "fetch":
                self.fetched = True
            return
        if what == "fetch":
            new = True
        elif self.fetched and self.step - self._began_at < _ON_ONE_BATCH:
            new = False
        elif what == "backward":
            new = self.primary is None and not self.optimized and self.backwards >= _NO_OPTIMIZER
        else:
            # No loader: after the step of the first optimizer, or where the step that always came did not come.
            late = what == "forward" and 0 < self.most_backwards <= self.backwards
            # Nothing has ever stepped, and gradients are cleared again and again.
            never = what == "zero_grad" and self.primary is None and self.backwards >= _NEVER_STEPPED
            new = self.stepped or late or never
        if new:
            self.begun_by = what
            self.next_iteration()
            self.fetched = what == "fetch"

    def next_iteration(self) -> None:
        """End this iteration and begin the next."""
        if self.stepped:
            self.most_backwards = max(self.most_backwards, self.backwards)
        for act in self.at_boundary:
            act()
        self.iteration_ended()
        for act in self.at_turn:
            act()
        self.trained = self.stepped = False
        self.backwards = 0
        self._began_at = self.step
        self.iteration += 1
        number = self.iteration
        self.detail = self._in_detail(number)
        self.norms = self.detail or (self.norms_every > 0 and number % self.norms_every == 0)
        self.norms_after = self.norms or (
            self.norms_every > 0 and (self.norms_every <= AFTER_EACH or (number + 1) % self.norms_every == 0)
        )
        # Fingerprints after this step are what those before the next one are compared with.
        self.exact_after = self.detail or self._in_detail(number + 1)

    def pass_over(self, steps: int) -> None:
        """Count steps of the first optimizer that were not followed, each as an iteration; it has just made the last one."""
        self.step += steps
        self.iteration += steps
        self._began_at = self.step
        self.trained = self.stepped = True
        # A loop over a loader may have begun meanwhile that is not known: the first one that is says so itself.
        self.fetched = False

    def iteration_ended(self) -> None:
        """Do what is to be done once an iteration has ended and was told of, before the next one begins."""

    def _in_detail(self, number: int) -> bool:
        """Whether an iteration of this number is recorded in detail."""
        regular = number < self.detail_until or (self.detail_every > 0 and number % self.detail_every == 0)
        return regular or number == self.detail_at
