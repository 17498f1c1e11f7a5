"""Layers that were put into evaluation mode one by one are in it when the training begins."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window


class NormsStayInEvaluation(Relation):
    """Batch normalisation that a program freezes layer by layer is not put back by the next ``model.train()``.

    ``train()`` sets the mode of everything inside a model. Where a constructor, or a function that freezes, calls ``eval()``
    on each layer that keeps running statistics, and the loop then begins with ``model.train()``, nothing is frozen: the
    statistics that were loaded are moved, and each batch is normalised by its own.
    Judged is the first pass of a model that trains, where ``train()`` was called on the model before, while it was in
    training mode and such layers of it, by themselves, were not. It is broken where all of the model's layers that keep
    statistics follow them in that pass. A model that has run before may be thawed, and a part that was in evaluation mode
    as a whole, as pretrained ones come, is not meant.
    """

    name = "norms-stay-in-evaluation"
    needs = frozenset({"mode", "forward"})
    wakes = frozenset({"mode", "forward"})
    repeats = 1
    looks = frozenset({"mode", "forward"})
    whole = False
    severity = "warning"
    priority = 20
    cause = (
        "the layers were frozen once, and model.train() at the beginning of an epoch put them back into training mode"
    )
    advice = "freeze them after every model.train(), or override train() in the model so that it does"

    def __init__(self) -> None:
        self._put_back: dict[str, Call] = {}  # by model: the call that put layers of it back
        self._run: set[str] = set()  # models that have run
        self._new = False  # whether one ran for the first time in the last window

    def see(self, window: Window) -> Iterator[Example]:
        self._new = False
        for call in sorted([*window.named("mode"), *window.named("forward")], key=ORDER):
            told = call.args or {}
            if call.name == "mode":
                if told.get("resting") and call.object and call.object not in self._run:
                    self._put_back[call.object] = call
                continue
            self._new = self._new or call.object not in self._run
            self._run.add(call.object)
            back = self._put_back.pop(call.object, None)
            if back is not None and (call.context or "").startswith("grad") and told.get("training"):
                yield _judged(call, back)

    def quiet(self, window: Window) -> bool:
        """Whether no model ran for the first time, and no layers were put back for a pass that is to come."""
        return not self._new and not self._put_back

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(norm=0)  # frozen once more, by the model's own train()
        yield _run(norm=1)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(norm=2)


def _judged(call: Call, back: Call) -> Example:
    told, resting = call.args or {}, (back.args or {})["resting"]
    wrong = told.get("norms", 0) >= resting and told.get("norm", 0) == told["norms"]
    return Example(
        (),
        not wrong,
        {},
        variables=(call.object, "train", "BatchNorm") if wrong else (),
        expected=f"{resting} layers in evaluation mode, as the program has put them",
        seen=f"all {told['norms']} layers that keep statistics follow them" if wrong else None,
        call=back if wrong else call,
        detail=f"{call.object}.train() puts layers back that were put into evaluation mode one by one" if wrong else "",
    )


def _run(norm: int) -> list[Window]:
    """A model of which two layers were put into evaluation before it was put into training, and its first pass."""
    put = ("mode model", {"args": {"training": True, "user": True, "resting": 2}})
    passed = ("forward model", {"args": {"training": True, "norms": 2, "norm": norm}})
    return [Mini({"model.weight": {}}).window(put, passed, "backward", "step optimizer0:SGD")]
