"""What is zero is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import ne

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import untrained
from preflight.monitor.views.flow import flow_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Variable, Window
from preflight.vocabulary.counted import counted

_STEPS = 2


class FrozenNotZero(Relation):
    """A weight of a module that takes part in the training is not frozen while all of it is zero.

    Weights begin at zero so that training can move them: the second matrix of an adapter, the last layer of a new branch.
    Frozen at zero they give nothing, for good. It happens where everything is frozen and the part that is to be trained
    is not thawed afterwards. Judged are matrices that an optimizer holds, in modules that were called in a pass that
    trains, at two steps. Of those that none holds the second one of a product of two is judged, narrower where they meet than
    at both other ends, of which the first is frozen too and not zero: an adapter that was frozen with the rest.
    Where another network trains a matrix of its name, it is a copy of that one, such as a reference. A rank's part of a
    divided matrix may be empty, and is not judged. What is to be thawed after a first phase, in which the head alone is
    trained, looks the same in that phase.
    """

    name = "frozen-not-zero"
    needs = frozenset({"step", "state", "module", "forward"})
    wakes = frozenset({"parameters before a step", "parameters after a step"})
    follows = (flow_of,)
    repeats = 3
    looks = frozenset({"step", "parameter at after_step"})
    reads = frozenset({"module"})
    severity = "warning"
    priority = 11
    cause = "the whole model was frozen, and the new part of it was not thawed, or was thawed before"
    advice = "look at requires_grad of these parameters right before the first step"

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._habit = 0
        self._of: tuple[list[int], int, list[tuple[int, Variable]]] = [], -1, []  # variables, and those to be judged

    def quiet(self, window: Window) -> bool:
        """Whether the parameters after each step were looked at: else those before it are judged."""
        return all(step.after is not None for step in steps_of(window))

    def kept(self) -> object:
        """Which modules take part."""
        return self._habit

    def see(self, window: Window) -> Iterator[Example]:
        flow = flow_of(window)
        self._habit = flow.habit
        for step in steps_of(window):
            state = step.after or step.before
            if state is None:
                continue
            zero = []
            for place, known in self._frozen(state.ids, window):
                called = known.name.rpartition(".")[0] in flow.called
                none = state.norm[place] == 0.0 and called
                self._counts[known.id] = self._counts.get(known.id, 0) + 1 if none else 0
                if self._counts[known.id] >= _STEPS:
                    zero.append(known.name)
            zero += self._adapters(window, flow.called)
            yield _example(step, tuple(zero))

    def _adapters(self, window: Window, called: Mapping[str, int]) -> list[str]:
        """Adapters that no optimizer holds and that are frozen while one of their two matrices is zero."""
        found = []
        for state in untrained(window, "before_step"):
            held = [(one, state.norm[place]) for place, one in self._unheld_in(state.ids, window)]
            for one, norm in held:
                if norm != 0.0 or one.name.rpartition(".")[0] not in called or _trained_elsewhere(one, window):
                    continue
                if any(size and _adapter(one, other) for other, size in held):
                    self._counts[one.id] = self._counts.get(one.id, 0) + 1
                    if self._counts[one.id] >= _STEPS:
                        found.append(one.name)
        return found

    @staticmethod
    def _unheld_in(ids: list[int], window: Window) -> list[tuple[int, Variable]]:
        """The whole frozen matrices of no optimizer, each with its place."""
        known = ((place, window.run.variables.get(ident)) for place, ident in enumerate(ids))
        return [(place, one) for place, one in known if one is not None and one.optimizer < 0 and _judged(one)]

    def _frozen(self, ids: list[int], window: Window) -> list[tuple[int, Variable]]:
        """The whole matrices among variables that are frozen, each with its place; the same at most steps."""
        known = window.run.variables
        if self._of[0] != ids or self._of[1] != known.changes:
            pairs = ((place, known[ident]) for place, ident in enumerate(ids) if ident in known)
            self._of = ids, known.changes, [(place, one) for place, one in pairs if _judged(one)]
        return self._of[2]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _stepped(trainable=True, norm=0.0)
        yield _stepped(trainable=False, norm=1.0)
        yield _stepped(trainable=False, norm=0.0, spread={"kind": "sharded", "ranks": [0], "placements": "S(0)"})
        yield _adapted([8, 2], norm=0.1)
        yield _adapted([8, 8], norm=0.0)  # a layer beside another
        yield _adapted([8, 2], norm=0.0, trained="policy.up.b")  # a reference

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _stepped(trainable=False, norm=0.0)
        yield _adapted([8, 2], norm=0.0)


def _judged(one: Variable) -> bool:
    """Whether a variable is a matrix that is frozen, and no rank's part of one."""
    whole = (one.spread or {}).get("kind") != "sharded"
    return not one.trainable and len(one.shape) > 1 and min(one.shape) > 1 and whole


def _trained_elsewhere(one: Variable, window: Window) -> bool:
    """Whether a matrix of the same name in another network, and of the same shape, is trained."""
    end, shape = one.name.removeprefix(one.root), one.shape
    alike = (other for other in window.run.variables.values() if other.trainable and other.shape == shape)
    return any(other.optimizer >= 0 and other.name.removeprefix(other.root) == end for other in alike)


def _adapter(second: Variable, first: Variable) -> bool:
    """Whether two matrices are the factors of a product of low rank: one word of their names differs."""
    one, other = second.name.split("."), first.name.split(".")
    if len(one) != len(other) or sum(map(ne, one, other)) != 1 or len(second.shape) != 2 or len(first.shape) != 2:
        return False
    (out, inner), (meets, into) = second.shape, first.shape
    if inner == meets:
        return inner < min(out, into)
    return into == out and into < min(meets, inner)  # each the other way round


def _example(step: Step, names: tuple[str, ...]) -> Example:
    return Example(
        (),
        not names,
        {"optimizer": step.kind},
        variables=names,
        expected="weights of zero that are trained",
        seen=counted(len(names), "frozen weight that is zero", "frozen weights that are zero") if names else None,
        call=step.call,
        detail="Weights that are zero are frozen: their modules give nothing, and never will" if names else "",
    )


def _adapted(shape: list[int], norm: float, trained: str = "net.head.weight") -> list[Window]:
    """An adapter of two frozen matrices that no optimizer holds, the second one with a shape and a norm, beside a trained one."""
    frozen = {"trainable": False, "optimizer": -1}
    factors = {"net.up.a": {**frozen, "shape": [2, 8]}, "net.up.b": {**frozen, "shape": shape}}
    mini = Mini({trained: {"shape": shape}, **factors})
    forward = ("forward net", {"args": {"training": True}, "inside": ("module net.up", "module net.head")})
    rest = ("before", {"net.up.a": (1.0, 1), "net.up.b": (norm, 2)}, {"optimizer": -1})
    rows = ("backward", ("before", {trained: 1.0}, {"optimizer": 0}), rest, "step optimizer0:SGD")
    return [mini.window(forward, *rows, ("after", {trained: 1.0})) for _ in range(3)]


def _stepped(trainable: bool, norm: float, spread: dict[str, object] | None = None) -> list[Window]:
    mini = Mini({"net.up.weight": {"trainable": trainable, "spread": spread}})
    forward = ("forward net", {"args": {"training": True}, "inside": ("module net.up",)})
    after = ("after", {"net.up.weight": norm})
    return [mini.window(forward, "backward", "step optimizer0:SGD", after) for _ in range(3)]
