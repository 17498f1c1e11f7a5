"""What is loaded comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class LoadFromElsewhere(Relation):
    """``load_state_dict`` gives a module other tensors than its own.

    ``state_dict()`` does not copy: what it returns is the weights themselves, and follows them while they are trained.
    Loading it back changes nothing. So the "best" weights that were kept without a copy are the last ones, and a target
    network that is loaded with its own state stays as it began.
    Not judged in programs that use distributed checkpoints, which fill the tensors of a module's own state in place
    before they are loaded.
    """

    name = "load-from-elsewhere"
    category = "checkpoint"
    needs = frozenset({"load_state_dict"})
    wakes = frozenset({"load_state_dict"})
    whole = False
    severity = "warning"
    priority = 18
    cause = "the state was kept without a copy, or is taken from the module that it is loaded into"
    advice = "keep copy.deepcopy(model.state_dict()), and check from which module the state is taken"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("load_state_dict"):
            told = call.args or {}
            if not told.get("matched") or "itself" not in told or told.get("distributed"):
                continue
            own = told["itself"] == told["matched"]
            yield Example(
                (),
                not own,
                {"strict": told.get("strict")},
                variables=(call.object,) if own else (),
                expected="a state other than the module's own tensors",
                seen=f"all {told['matched']} tensors are the module's own" if own else None,
                call=call,
                detail=f"Loading this state into {call.object} changes nothing: it is its own" if own else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _load(0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _load(2)


def _load(itself: int) -> list[Window]:
    args = {"strict": True, "matched": 2, "missing": [], "unexpected": [], "itself": itself, "distributed": False}
    return [Mini({"model.weight": {}}).window(("load_state_dict model", {"args": args}))]
