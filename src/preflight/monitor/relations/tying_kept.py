"""Parameters that were one stay one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Variable, Window
from preflight.vocabulary.counted import counted


class TyingKept(Relation):
    """Parameters that a module uses in two places are still one when the training begins.

    Giving memory to a model that was made without (``to_empty``) and loading a state by assignment put a new tensor in
    each place. What was one parameter is two from then on, a half of them is trained by itself, and the checkpoint holds
    something else than the model that was designed.
    Judged at the first step of an optimizer after such a call: a program that ties the parameters again in between is
    right.
    A copy of each place does the same: it is seen where a table of embeddings and the weight of another layer of one
    model are the same in every bit before the first step, and are trained apart.
    """

    name = "tying-kept"
    needs = frozenset({"untied", "step", "variable", "state"})
    wakes = frozenset({"untied", "step"})
    repeats = 2
    looks = frozenset({"step"})
    reads = frozenset({"untied"})
    whole = False
    priority = 12
    cause = (
        "a call that replaces parameters (to_empty, load_state_dict with assign=True, deepcopy of a part) replaces each"
        " place by itself"
    )
    advice = "tie the parameters again after the model has its memory and its weights, and before the optimizer is made"

    def __init__(self) -> None:
        self._untied: list[tuple[Call, list[str]]] = []
        self._looked: set[int] = set()  # optimizers of which the first step was seen

    def quiet(self, window: Window) -> bool:
        """Whether the parameters of each optimizer were looked at before one of its steps, which is judged once."""
        return self._looked.issuperset([step.optimizer for step in steps_of(window)])

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("untied"):
            self._untied += [(call, group) for group in (call.args or {}).get("groups", ())]
        for step in steps_of(window):
            if step.optimizer not in self._looked and step.before is not None:
                self._looked.add(step.optimizer)
                yield from self._copied(step, window)
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
                seen=counted(len(found), "parameter") if wrong else None,
                call=call,
                detail=f"{' and '.join(found)} were one parameter and are trained as {len(found)}" if wrong else "",
            )
        self._untied = []

    @staticmethod
    def _copied(step: Step, window: Window) -> Iterator[Example]:
        """A table of embeddings of which another layer of the model has a copy, both of them held by one optimizer."""
        before = step.before
        if before is None or before.bits is None:
            return
        tables: list[tuple[Variable, int]] = []
        others: list[tuple[Variable, int]] = []
        for ident, norm, bits in zip(before.ids, before.norm, before.bits, strict=True):
            one = window.run.variables.get(ident)
            if one is not None and bits is not None and norm and one.trainable and len(one.shape) == 2:
                (tables if one.module == "Embedding" else others).append((one, bits))
        if not tables or not others:
            return
        pairs = [
            (table, other)
            for table, bits in tables
            for other, same in others
            if (bits, table.shape, table.root) == (same, other.shape, other.root) and table.spread == other.spread
        ]
        yield Example(
            (),
            not pairs,
            {},
            variables=tuple(dict.fromkeys(one.name for pair in pairs for one in pair)),
            expected="one parameter in all places",
            seen=counted(len(pairs), "copy of a table of embeddings", "copies of a table of embeddings")
            if pairs
            else None,
            call=step.call,
            detail="A table of embeddings and its copy in another layer are trained as two" if pairs else "",
        )

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
        yield [_first(7, 8)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained(shared=-1)
        yield [_first(7, 7)]


def _trained(shared: int) -> list[Window]:
    mini = Mini({"model.embed.weight": {}, "model.head.weight": {"shared": shared}})
    told: Any = ("untied model", {"args": {"groups": [["model.embed.weight", "model.head.weight"]]}})
    return [mini.window(told, "backward", "step optimizer0:SGD")]


def _first(embed: int, head: int) -> Window:
    """A first step on a table of embeddings and a head, with their fingerprints."""
    mini = Mini({"model.embed.weight": {"module": "Embedding"}, "model.head.weight": {}})
    before = {"model.embed.weight": (3.0, embed), "model.head.weight": (3.0, head)}
    return mini.window("backward", ("before", before, {"optimizer": 0}), "step optimizer0:SGD")
