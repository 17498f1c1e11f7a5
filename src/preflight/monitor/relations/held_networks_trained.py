"""A network that an optimizer holds is run with gradients."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_NEVER = 3
"""Steps without any gradient of the network, from the first on, that are one too many."""


class HeldNetworksTrained(Relation):
    """A whole network that an optimizer steps together with others is not only ever run without gradients.

    Judged is a network that the program calls itself, in training mode, of which an optimizer holds trainable parameters,
    while other networks of the same optimizer have gradients: it is broken where all its passes since the first step were
    made without gradients and none of its parameters ever had one. What came out of it was kept under ``no_grad``, as
    log-probabilities of a rollout are, and goes into the loss as a plain number: the network keeps its first weights.
    Parts of a larger model that run without gradients may be meant to rest, and are left alone; so is a network in
    evaluation mode, one that is also run with gradients, and one that is trained by another optimizer.
    """

    name = "held-networks-trained"
    needs = frozenset({"step", "state", "forward"})
    wakes = frozenset({"gradients of a step", "forward"})
    repeats = 4
    looks = frozenset({"step", "forward", "gradient at before_step"})
    severity = "warning"
    priority = 10
    cause = "what the loss takes of it was computed under no_grad, as in a rollout, and not computed again"
    advice = "run the network again with gradients on what was collected, and make the loss of that"

    def __init__(self) -> None:
        self._run: dict[str, Call] = {}  # networks that ran only without gradients, in training mode
        self._trained: set[str] = set()
        self._missed: dict[tuple[int, str], int] = {}
        self._seen = -1

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            self._follow(step.named("forward"))
            if step.gradients is not None and not step.closure:
                yield from self._judge(step, window)
        self._follow(window.named("forward"))

    def _follow(self, calls: list[Call]) -> None:
        for call in calls:
            if call.q <= self._seen:
                continue
            self._seen = call.q
            if (call.context or "").startswith("grad") or not (call.args or {}).get("training"):
                self._trained.add(call.object)
            else:
                self._run[call.object] = call

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        assert step.gradients is not None
        variables = window.run.variables
        held: dict[str, list[float | None]] = {}
        for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
            if ident in variables and variables[ident].trainable:
                held.setdefault(variables[ident].root, []).append(norm)
        reached = {root for root, norms in held.items() if any(norm is not None for norm in norms)}
        self._trained |= reached
        if not reached or len(held) < 2:
            return
        elsewhere = {one.root for one in variables.values() if one.optimizer >= 0 and one.optimizer != step.optimizer}
        wrong = []
        for root in held:
            if root in self._trained or root in elsewhere or root not in self._run:
                continue
            missed = self._missed[step.optimizer, root] = self._missed.get((step.optimizer, root), 0) + 1
            if missed >= _NEVER:
                wrong.append(root)
        names = tuple(
            window.run.name(ident)
            for ident in step.gradients.ids
            if ident in variables and variables[ident].root in wrong
        )
        told = ", ".join(wrong)
        yield Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=(*wrong, *names),
            expected="a pass with gradients of each network that the optimizer holds",
            seen=f"only passes without gradients of {told}" if wrong else None,
            call=self._run[wrong[0]] if wrong else step.call,
            detail=f"The optimizer holds {told}, which only ever runs without gradients" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _played(("nograd", "grad"), 0.5)
        yield _played(("nograd",), None, training=False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _played(("nograd",), None)


def _played(contexts: tuple[str, ...], norm: float | None, training: bool = True) -> list[Window]:
    """Four iterations of a rollout of an actor and a step that holds it and a critic."""
    mini = Mini({"actor.weight": {}, "critic.weight": {}})
    passes = [("forward actor", {"args": {"training": training}, "context": one}) for one in contexts]
    critic = ("forward critic", {"args": {"training": True}, "context": "grad"})
    norms = ("gradients", {"actor.weight": norm, "critic.weight": 0.5})
    return [mini.window(*passes, critic, "backward", norms, "step optimizer0:Adam") for _ in range(4)]
