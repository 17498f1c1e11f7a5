"""A network that an optimizer holds is run with gradients."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

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
    Parts of a larger model that run without gradients may be meant to rest. One that the program calls itself is judged
    where it drops, which nothing does that rests, and where what is trained of the model is given another kind of data than
    it, and data that needs no gradient: its features, not the inputs, as a target network's twin is.
    A network in evaluation mode is left alone, one that is also run with gradients, and one that another optimizer trains.
    """

    name = "held-networks-trained"
    needs = frozenset({"step", "state", "forward", "module", "tensor"})
    wakes = frozenset({"gradients of a step", "forward"})
    repeats = 4
    looks = frozenset({"step", "forward", "gradient at before_step"})
    severity = "warning"
    priority = 10
    cause = "what the loss takes of it was computed under no_grad, as in a rollout, and not computed again"
    advice = "run it with gradients where the loss is made; if it is meant to rest, freeze it and call eval() on it"

    def __init__(self) -> None:
        self._run: dict[str, Call] = {}  # networks that ran only without gradients, in training mode
        self._trained: set[str] = set()
        self._missed: dict[tuple[int, str], int] = {}
        self._seen = -1
        self._given: dict[str, tuple[object, ...]] = {}  # by what was called: of which kind its first input was
        self._fed: dict[str, bool] = {}  # whether that needed no gradient

    def see(self, window: Window) -> Iterator[Example]:
        self._look(window)
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

    def _look(self, window: Window) -> None:
        """Remember of which kind the first tensor was that went into each network, or into a module of it."""
        entering = sorted((one for one in window.tensors if one.position == "in0"), key=attrgetter("call"))
        numbers = [one.call for one in entering]
        for call in window.named("forward") if entering else ():
            at = bisect_left(numbers, call.q)
            if at < len(numbers) and numbers[at] < call.e:
                first = entering[at]
                self._given[call.object] = (first.dtype, *first.shape[1:])
                self._fed[call.object] = not first.requires_grad

    def _parts(self, root: str) -> Iterator[str]:
        """Parts of a model that drop and only ever ran without gradients, and whose features the rest is trained on."""
        rest = [name for name in self._trained if name.startswith(root + ".")]
        if not rest or not all(self._fed.get(name) for name in rest):
            return
        for name, call in self._run.items():
            drops = name.startswith(root + ".") and name not in self._trained and (call.args or {}).get("dropout")
            given = self._given.get(name) if drops else None
            if given is not None and all(self._given[one] != given for one in rest):
                yield name

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        assert step.gradients is not None
        variables = window.run.variables
        held: dict[str, dict[str, bool]] = {}  # by root: of its parameters by name, whether they have a gradient
        for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
            if ident in variables and variables[ident].trainable:
                held.setdefault(variables[ident].root, {})[window.run.name(ident)] = norm is not None
        reached = {root for root, own in held.items() if any(own.values())}
        self._trained |= reached
        elsewhere = {one.root for one in variables.values() if one.optimizer >= 0 and one.optimizer != step.optimizer}
        networks = {name: list(held[name]) for name in held if name in self._run and name not in self._trained}
        if not reached or (len(held) < 2 and not self._run):
            return
        for root in reached:
            for part in self._parts(root):
                inside = [name for name in held[root] if name.startswith(part + ".")]
                if inside and not any(held[root][name] for name in inside):
                    networks[part] = inside
        wrong: dict[str, list[str]] = {}
        for network, names in networks.items():
            if network.split(".")[0] in elsewhere:
                continue
            missed = self._missed[step.optimizer, network] = self._missed.get((step.optimizer, network), 0) + 1
            if missed >= _NEVER:
                wrong[network] = names
        yield self._example(step, wrong)

    def _example(self, step: Step, wrong: dict[str, list[str]]) -> Example:
        told = ", ".join(wrong)
        return Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=(*wrong, *(name for names in wrong.values() for name in names)),
            expected="a pass with gradients of each network that the optimizer holds",
            seen=f"only passes without gradients of {told}" if wrong else None,
            call=self._run[next(iter(wrong))] if wrong else step.call,
            detail=f"The optimizer holds {told}, which only ever runs without gradients" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _played(("nograd", "grad"), 0.5)
        yield _played(("nograd",), None, training=False)
        yield _pooled((16, 12), dropout=0)
        yield _pooled((16, 32))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _played(("nograd",), None)
        yield _pooled((16, 12))


def _played(contexts: tuple[str, ...], norm: float | None, training: bool = True) -> list[Window]:
    """Four iterations of a rollout of an actor and a step that holds it and a critic."""
    mini = Mini({"actor.weight": {}, "critic.weight": {}})
    passes = [("forward actor", {"args": {"training": training}, "context": one}) for one in contexts]
    critic = ("forward critic", {"args": {"training": True}, "context": "grad"})
    norms = ("gradients", {"actor.weight": norm, "critic.weight": 0.5})
    return [mini.window(*passes, critic, "backward", norms, "step optimizer0:Adam") for _ in range(4)]


def _pooled(shape: tuple[int, int], dropout: int = 1) -> list[Window]:
    """Four iterations of a model whose parts a program calls: a backbone without gradients, and a head on its features."""
    mini = Mini({"net.backbone.weight": {}, "net.head.weight": {}})
    found = []
    for _ in range(4):
        window = mini.window(
            *(_called("net.backbone", shape, "nograd", dropout), _called("net.head", (16, 32), "grad", 0)),
            "backward",
            ("gradients", {"net.backbone.weight": None, "net.head.weight": 0.5}),
            "step optimizer0:Adam",
        )
        calls = {call.object: call.q for call in window.named("forward")}
        window.tensors = [one._replace(call=calls[one.object]) for one in window.tensors]
        found.append(window)
    return found


def _called(name: str, shape: tuple[int, int], context: str, dropout: int) -> tuple[str, dict[str, object]]:
    given = ("tensor", {"object": name, "position": "in0", "shape": list(shape), "requires_grad": False})
    return (f"forward {name}", {"args": {"training": True, "dropout": dropout}, "context": context, "inside": (given,)})
