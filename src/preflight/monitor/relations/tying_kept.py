"""Parameters that were one stay one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window


class TyingKept(Relation):
    """Parameters that a module uses in two places are still one when the training begins.

    Giving memory to a model that was made without (``to_empty``) and loading a state by assignment put a new tensor in
    each place. What was one parameter is two from then on, a half of them is trained by itself, and the checkpoint holds
    something else than the model that was designed.
    Judged at the first step of an optimizer after such a call: a program that ties the parameters again in between is
    right.
    """

    name = "tying-kept"
    needs = frozenset({"untied", "step", "variable"})
    wakes = frozenset({"untied", "step"})
    repeats = 1
    whole = False
    priority = 12
    cause = "a call that replaces parameters (to_empty, load_state_dict with assign=True) replaces each place by itself"
    advice = "tie the parameters again after the model has its memory and its weights, and before the optimizer is made"

    def __init__(self) -> None:
        self._untied: list[tuple[Call, list[str]]] = []

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("untied"):
            self._untied += [(call, group) for group in (call.args or {}).get("groups", ())]
        if not self._untied or not window.named("step"):
            return
        for call, group in self._untied:
            found = [name for name in (self._now(name, window) for name in group) if name is not None]
            if len(found) < len(group):
                continue
            shared = {one.shared for one in window.run.variables.values()} - {-1}
            known = {one.name: one for one in window.run.variables.values()}
            apart = [name for name in found if known[name].shared < 0 and known[name].id not in shared]
            wrong = len(apart) == len(found)
            yield Example(
                (),
                not wrong,
                {},
                variables=tuple(found) if wrong else (),
                expected="one parameter in all places",
                seen=f"{len(found)} parameters" if wrong else None,
                call=call,
                detail=f"{' and '.join(found)} were one parameter and are trained as {len(found)}" if wrong else "",
            )
        self._untied = []

    @staticmethod
    def _now(name: str, window: Window) -> str | None:
        """The name that a parameter has now: the same, or a longer one where its module became a part of another."""
        names = [one.name for one in window.run.variables.values()]
        if name in names:
            return name
        ends = [one for one in names if one.endswith("." + name)]
        return ends[0] if len(ends) == 1 else None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained(shared=0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained(shared=-1)


def _trained(shared: int) -> list[Window]:
    mini = Mini({"model.embed.weight": {}, "model.head.weight": {"shared": shared}})
    told: Any = ("untied model", {"args": {"groups": [["model.embed.weight", "model.head.weight"]]}})
    return [mini.window(told, "backward", "step optimizer0:SGD")]
