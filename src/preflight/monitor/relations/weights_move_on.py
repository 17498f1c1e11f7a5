"""Weights do not come back to what they were at the beginning."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, State, Window

_STEPS = 5
_NEARLY_ALL = 0.9


class WeightsMoveOn(Relation):
    """What training has made of the weights is not thrown away in the middle of a run.

    An average that is never brought on holds the weights of the beginning. Where it is put into the model before a
    checkpoint or an evaluation and stays there, each epoch begins anew and all checkpoints are the same.
    Compared are the norms of an optimizer's parameters before a step, or when they are saved, with those before its first
    step, after at least five steps. Broken where nearly all are the same again, to the last digit, and were not after the
    step before. Weights that ``load_state_dict`` brings back are left alone, and so is an optimizer whose weights came
    back before: programs that learn how to begin (meta learning) do so again and again.
    """

    name = "weights-move-on"
    needs = frozenset({"step", "state", "load_state_dict"})
    wakes = frozenset({"step", "parameter at saved"})
    severity = "error"
    priority = 10
    cause = "weights that were stored at the beginning are copied into the model, and the trained ones are not put back"
    advice = (
        "restore the trained weights after the checkpoint or the evaluation, and bring the average on after each step"
    )

    def __init__(self) -> None:
        self._first: dict[int, float] = {}  # by variable
        self._last: dict[int, float] = {}  # after the last step
        self._owner: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._back: set[int] = set()
        self._loaded = -1

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | State] = [*window.named("step"), *window.named("load_state_dict")]
        events += [
            one
            for one in window.states
            if one.what == "parameter" and one.moment in ("before_step", "after_step", "saved")
        ]
        for event in sorted(events, key=ORDER):
            if isinstance(event, Call):
                if event.name == "load_state_dict":
                    self._loaded = window.iteration
                continue
            index: int = (event.extra or {}).get("optimizer", -1)
            norms = {ident: norm for ident, norm in zip(event.ids, event.norm, strict=True) if norm}
            if event.moment == "after_step":
                self._done[index] = self._done.get(index, 0) + 1
                self._last.update(norms)
            elif index == -1 and event.moment != "saved":
                continue
            elif event.moment != "saved" and index not in self._done:
                self._first.update(norms)
                self._owner.update(dict.fromkeys(norms, index))
            else:
                yield from self._judge(norms, window)

    def _judge(self, norms: dict[int, float], window: Window) -> Iterator[Example]:
        held: dict[int, list[int]] = {}
        for ident in norms:
            if ident in self._first and ident in self._last:
                held.setdefault(self._owner[ident], []).append(ident)
        for index, idents in held.items():
            moved = [ident for ident in idents if self._last[ident] != self._first[ident]]
            if self._done.get(index, 0) < _STEPS or len(moved) < 2 or index in self._back:
                continue
            back = [ident for ident in moved if norms[ident] == self._first[ident]]
            wrong = len(back) >= _NEARLY_ALL * len(moved)
            if wrong:
                self._back.add(index)
                wrong = not 0 <= self._loaded >= window.iteration - 1
            yield Example(
                (),
                not wrong,
                {},
                variables=tuple(window.run.name(ident) for ident in back) if wrong else (),
                expected="weights that the steps so far have changed",
                seen=f"{len(back)} parameters as they were before the first step" if wrong else None,
                call=next(iter(window.named("step")), None),
                detail="All that was learnt is gone: the weights are those of the beginning" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(back=False)
        yield _run(back=True, loaded=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(back=True)


def _run(back: bool, loaded: bool = False) -> list[Window]:
    names = ["model.a.weight", "model.b.weight"]
    mini = Mini({name: {} for name in names})
    windows = []
    for step in range(8):
        begun = 0 if back and step == 7 else step
        before, after = (dict.fromkeys(names, 1.0 + 0.01 * value) for value in (begun, begun + 1))
        load = ["load_state_dict model"] if loaded and step == 7 else []
        step_rows = (("before", before, {"optimizer": 0}), "step optimizer0:SGD", ("after", after, {"optimizer": 0}))
        windows.append(mini.window(*load, "forward model", "backward", *step_rows))
    return windows
