"""What is computed again draws the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class RerunsDrawAlike(Relation):
    """Dropout that is run again for a backward pass drops what it dropped before.

    Activation checkpointing throws activations away and computes them once more. Where the state of the random generator
    is not put back for that, other activations are dropped, and the gradients are those of another loss than the one that
    is printed. Training goes on, and ends worse.
    Judged are layers of dropout in training mode, in iterations that are recorded in detail: the state of the generator
    when they begin again is one of those with which they began.
    """

    name = "reruns-draw-alike"
    midway = True
    needs = frozenset({"rerun"})
    wakes = frozenset({"rerun"})
    whole = False
    priority = 6
    cause = (
        "checkpoint() is called with preserve_rng_state=False, or by a function that does not put the random state back"
    )
    advice = "leave preserve_rng_state at True, or use torch.utils.checkpoint in place of a function of your own"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("rerun"):
            same = bool((call.args or {}).get("same"))
            yield Example(
                (),
                same,
                {},
                variables=() if same else (call.object,),
                expected="the state of the random generator with which it began before",
                seen=None if same else "another state",
                call=call,
                detail="" if same else f"{call.object} drops other activations when it is computed again",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(False)


def _run(same: bool) -> list[Window]:
    again = ("rerun model.dropout", {"args": {"type": "Dropout", "same": same}})
    return [Mini({"model.weight": {}}).window("forward model", "backward", again, "step optimizer0:SGD")]
