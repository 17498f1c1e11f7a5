"""What gets gradients is held by an optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.adapters import adapted, mastered
from preflight.monitor.views.awaited import AHEAD, Awaited
from preflight.monitor.views.copies import Copies
from preflight.monitor.views.flow import Flow, flow_of
from preflight.monitor.window import Call, State, Variable, Window
from preflight.vocabulary.counted import counted

_ROUNDS = 2
_LATER = 4
"""And where copies of all of a model are trained, which may be written back after several steps."""
_SHARE = 5
"""How many times larger than what the optimizer holds of a model the rest is, where that is meant to stay."""

_HALVES = frozenset({"bfloat16", "float16"})


class TrainedAreHeld(Relation):
    """Every trainable parameter that gets gradients is held by an optimizer, or changes in another way.

    Where only the upper part of a model is handed to the optimizer, the parts below it are meant to stay, whether they
    are frozen or not: that is no violation. It is one where something that is trained lies below or beside them, and where
    the optimizer holds a tensor without gradients in their place.
    A parameter that gets gradients step after step, belongs to no optimizer and never changes was forgotten: it came
    after the optimizer was made, sits in a plain list, belongs to a second network, or was meant to be frozen.
    What was frozen and no longer is, is meant to be trained wherever it lies, unless an optimizer holds other parameters of
    the network that thawed, too: then these were chosen. So is what lies below where an optimizer was
    made with a group that has a rate of its own and holds nothing, as of a generator that was used up; and so is what lies
    below where two optimizers take turns and hold the very same parameters: one of them was meant for it.
    So are adapters: each matrix that nobody holds stands in one module with a larger one that was frozen, and who freezes that
    one leaves trainable what is to be trained. So is a model of which no optimizer holds anything, while tensors of the shapes of
    all of its parameters are trained: these are copies that are to be written back.
    Parameters that the program updates by hand do change, and are left alone; so are those in half precision of a model of
    which it updates others in half precision, as from masters in float32: what moves less than the weight can tell does not
    change for many steps. So is a model of which the optimizer holds but a small share, such as adapters or prompts beside
    weights that nobody froze.
    A network that began as a copy of one that is trained beside it, a target network, gets gradients where the program
    does not detach what it says: nothing is made of them. The gradients of a network that is no longer called, as of a first
    phase of training, are left from before.

    What an optimizer held before was trained in its turn. Where the program's own text may still make an optimizer after the
    place that it has come to, for a second stage or for a critic whose generator is warmed up first, or can't be read, the end
    of the program is waited for: only what was in no optimizer until then, and has no like in another model that was, was
    forgotten.
    """

    name = "trained-are-held"
    needs = frozenset({"step", "state", "optimizer.new", AHEAD})
    follows = (flow_of,)
    wakes = frozenset({"exact parameter at before_step", "variable", "optimizer.new", AHEAD, "note end"})
    whole = False
    priority = 8
    cause = (
        "the optimizer was made from a part of the parameters, or before they were added, replaced or registered; "
        "or they were meant to be frozen"
    )
    advice = "hand all of model.parameters() to the optimizer after the model is final, or set requires_grad to False on what is frozen"

    def __init__(self) -> None:
        self._bits: dict[int, int | None] = {}
        self._rounds: dict[int, int] = {}
        self._flow = Flow()
        self._copies = Copies()
        self._awaited = Awaited()
        self._step = -1  # the last step of the windows before
        self._empty = False  # whether an optimizer has a group that holds nothing
        self._frozen: set[int] = set()
        self._holds: dict[int, list[int]] = {}  # by optimizer, what it steps
        self._turns: set[tuple[int, int]] = set()  # optimizers that hold the same, the second of which stepped next
        self._turn = -1  # the optimizer that stepped last
        self._written: set[str] = set()  # networks of which something in half precision changed that nobody holds
        self._trained: set[int] = set()  # what an optimizer holds and had a gradient before a step
        self._thawed: set[int] = set()  # parameters that were frozen and no longer are: these are meant to be trained

    def see(self, window: Window) -> Iterator[Example]:
        self._follow(window)
        if window.complete:
            yield from self._look(window)
        forgotten = self._awaited.forgotten(window, self._trained)
        if forgotten:
            yield self._told(window, list(forgotten), next(iter(forgotten.values())))

    def _look(self, window: Window) -> Iterator[Example]:
        variables = window.run.variables
        self._flow = flow_of(window)
        since = self._step
        self._step = max((call.q for call in window.named("step")), default=since)
        for state in window.states:
            if (
                state.moment == "before_step"
                and state.what == "gradient"
                and (state.extra or {}).get("optimizer") != -1
            ):
                self._trained.update(ident for ident, norm in zip(state.ids, state.norm, strict=True) if norm)
            if state.moment == "before_step" and state.what == "parameter" and state.bits:
                self._copies.see(state)
                self._take_turn((state.extra or {}).get("optimizer", -1), state.ids)
        states = [
            one for one in window.states if one.moment == "before_step" and (one.extra or {}).get("optimizer") == -1
        ]
        if not any(state.what == "parameter" and state.bits is not None for state in states):
            return
        orphans = any(
            norm is None and ident in variables and not variables[ident].module
            for state in window.states
            if state.moment == "before_step" and state.what == "gradient"
            for ident, norm in zip(state.ids, state.norm, strict=True)
        )
        gone = set[int]() if orphans else self._trained  # what took the place of something has its number
        with_gradient = {
            ident
            for state in states
            if state.what == "gradient"
            for ident, norm in zip(state.ids, state.norm, strict=True)
            if norm and ident in variables and _unheld(variables[ident]) and ident not in gone
            if not self._flow.rested(variables[ident].root, since)
        }
        targets = self._targets({variables[ident].root for ident in with_gradient}, window)
        with_gradient = {ident for ident in with_gradient if variables[ident].root not in targets}
        for state in states:
            if state.what != "parameter" or state.bits is None:
                continue
            self._see_written(state, variables)
            wrong = self._wrong(state, with_gradient, orphans, variables)
            steps = window.named("step")
            last = steps[-1] if steps else None
            if self._awaited.open and not orphans and not self._meant_below():
                self._awaited.wait([ident for ident in wrong if ident not in self._thawed], last, window)
                wrong = [ident for ident in wrong if ident in self._thawed]
            yield self._told(window, wrong, last)

    def _wrong(self, state: State, with_gradient: set[int], orphans: bool, variables: dict[int, Variable]) -> list[int]:
        """Those of a state's parameters that get gradients, are in no optimizer and stay as they are."""
        chosen = {one.root for one in variables.values() if one.id in self._thawed and one.optimizer >= 0}
        meant_roots = mastered(with_gradient, variables) | adapted(with_gradient, variables)
        wrong = []
        for ident, bits in zip(state.ids, state.bits or (), strict=True):
            still = bits is not None and self._bits.get(ident) == bits
            self._bits[ident] = bits
            if not still:
                self._awaited.drop(ident)
            if ident not in with_gradient:
                self._rounds.pop(ident, None)
                continue
            rounds = self._rounds[ident] = 1 + (self._rounds.get(ident, 0) if still else 0)
            meant = orphans or (ident in self._thawed and variables[ident].root not in chosen)
            meant = meant or (rounds >= _LATER and variables[ident].root in meant_roots)
            if variables[ident].dtype in _HALVES and variables[ident].root in self._written:
                continue
            if rounds >= _ROUNDS and (meant or self._forgotten(variables[ident], variables)):
                wrong.append(ident)
        return wrong

    def _told(self, window: Window, wrong: list[int], call: Call | None) -> Example:
        """What is said of some parameters, or that there are none."""
        optimizers = {variable.optimizer for variable in window.run.variables.values()} - {-1}
        return Example(
            (),
            not wrong,
            {"optimizers": len(optimizers)},
            variables=tuple(map(window.run.name, wrong)),
            expected="an optimizer that holds every trainable parameter with a gradient",
            seen=counted(
                len(wrong),
                "parameter with a gradient is in no optimizer and does not change",
                "parameters with gradients are in no optimizer and do not change",
            )
            if wrong
            else None,
            call=call,
            detail="Parameters get gradients, but no optimizer holds them and they never change" if wrong else "",
        )

    def _meant_below(self) -> bool:
        """Whether what optimizers were made with says that one of them was meant for what lies below."""
        return self._empty or any((second, first) in self._turns for first, second in self._turns)

    def _see_written(self, state: State, variables: Mapping[int, Variable]) -> None:
        """Remember the networks of which something in half precision that nobody holds changed since it was seen last."""
        for ident, bits in zip(state.ids, state.bits or (), strict=False):
            known, about = self._bits.get(ident), variables.get(ident)
            if about is None or about.dtype not in _HALVES or not _unheld(about):
                continue
            if known is not None and bits is not None and known != bits:
                self._written.add(about.root)

    def _take_turn(self, optimizer: int, ids: list[int]) -> None:
        """Remember after which optimizer with the same parameters another one steps."""
        if optimizer < 0:
            return
        self._holds[optimizer] = ids
        if self._turn not in (-1, optimizer) and self._holds[self._turn] == ids:
            self._turns.add((self._turn, optimizer))
        self._turn = optimizer

    def _targets(self, roots: set[str], window: Window) -> set[str]:
        """Those of some networks whose matrices are all copies of ones of another network that is trained beside them."""
        found = set()
        for root in roots if self._trained else ():
            own = [
                one
                for one in window.run.variables.values()
                if one.root == root and one.kind == "parameter" and len(one.shape) > 1
            ]
            if own and all(
                any(
                    two.id in self._trained and two.root != root
                    for two in self._copies.originals(one.id, window, exact=True)
                )
                for one in own
            ):
                found.add(root)
        return found

    def _follow(self, window: Window) -> None:
        self._awaited.see(window)
        for call in window.named("optimizer.new"):
            self._empty = self._empty or _meant_more(call)
        for one in window.changed:
            if one.kind == "parameter" and not one.trainable:
                self._frozen.add(one.id)
            elif one.id in self._frozen:
                self._thawed.add(one.id)

    def _forgotten(self, variable: Variable, variables: dict[int, Variable]) -> bool:
        """Whether it is hidden, or something that an optimizer holds took part beside or below it in a forward pass."""
        called = self._flow.called
        at = called.get(variable.name.rpartition(".")[0])
        if at is None:
            return False
        if self._meant_below():
            return True
        if variable.root not in self._flow.roots:
            return True  # called inside of another module that does not know of it
        own = [one for one in variables.values() if one.root == variable.root and one.trainable]
        mine = sum(one.numel for one in own if one.optimizer >= 0)
        if 0 < _SHARE * mine < sum(one.numel for one in own) - mine:
            return False
        held = {one.name.rpartition(".")[0] for one in variables.values() if one.optimizer >= 0 and one.trainable}
        return any(called[module] < at or self._flow.source(module) for module in held if module in called)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}, "model.frozen": {"trainable": False, "optimizer": -1}})
        yield [mini.window(*_rows("model.frozen", None, 7)) for _ in range(3)]
        mini = Mini({"model.weight": {}, "table": {"optimizer": -1}})
        yield [mini.window(*_rows("table", 0.5, bits)) for bits in (7, 8, 9)]
        mini = Mini({"head.weight": {}, "body.weight": {"optimizer": -1}})
        yield [mini.window(*_rows("body.weight", 0.5, 7, ("body", "head"))) for _ in range(3)]
        mini = Mini({"model.adapter.weight": {"numel": 8}, "model.wide.weight": {"optimizer": -1, "numel": 64}})
        parts = ["module model.adapter", "module model.wide"]
        whole = ("forward model", {"args": {"training": True}, "inside": parts})
        yield [mini.window(whole, *_rows("model.wide.weight", 0.5, 7, ())) for _ in range(3)]

        mini = Mini({"next.weight": {}, "first.weight": {"optimizer": -1}})
        both = _rows("first.weight", 0.5, 7, ("first", "next"))
        yield [mini.window(*both), *(mini.window(*_rows("first.weight", 0.5, 7, ("next",))) for _ in range(3))]

        mini = Mini({"head.weight": {}, "body.weight": {"optimizer": -1}})
        groups = {"sizes": [1, 0], "groups": [{"lr": 0.01}, {"lr": 0.01}]}
        new = ("optimizer.new optimizer0:SGD", {"args": groups})
        rows = _rows("body.weight", 0.5, 7, ("body", "head"))
        yield [mini.window(new, *rows), *(mini.window(*rows) for _ in range(2))]
        mini = Mini({"online.weight": {}, "target.weight": {"optimizer": -1}})
        rows = _rows("target.weight", 0.5, 7, ("online", "target"))
        own = (("before", {"online.weight": (1.0, 7)}, {"optimizer": 0}), ("gradients", {"online.weight": 0.5}))
        yield [mini.window(*own, *rows) for _ in range(3)]
        mini = Mini({"critic.weight": {"optimizer": 1}, "actor.weight": {}, "target.weight": {"optimizer": -1}})
        turn = (  # an actor whose target the critic's loss asks is stepped in iterations of its own
            ("before", {"actor.weight": (1.0, 7)}, {"optimizer": 0}),
            ("gradients", {"actor.weight": 0.5}, {"optimizer": 0}),
            "step optimizer0:SGD",
        )
        rows = _rows("target.weight", 0.5, 7, ("critic", "target"))[:-1]
        held = (("gradients", {"critic.weight": 0.5}, {"optimizer": 1}), "step optimizer1:SGD")
        yield [mini.window(*one) for one in ((*rows, *held), turn, (*rows, *held), turn, (*rows, *held))]
        # A part is frozen, and the rest of the body is meant to stay, too.
        for more in ({}, {"shape": [4]}):
            body, low = ("m.block.norm.weight", "m.block.conv.weight") if more else ("m.body.weight", "m.low.weight")
            mini = Mini({low: _LARGE, body: {"optimizer": -1, **more}, "m.head.weight": {}})
            yield [mini.window(*_rows(body, 0.5, 7, ("m", "m.body", "m.block", "m.head"))) for _ in range(6)]
        # All of it thaws, and a new optimizer is given the upper part alone.
        mini = Mini({"head.weight": {}, "m.body.weight": _FROZEN, "m.low.weight": _FROZEN})
        thawing = ("m.low.weight", "m.body.weight")
        still = mini.window(*(("variable", name, {}) for name in thawing))
        given = ("variable", "m.body.weight", {"trainable": True, "optimizer": 0})
        rows = _rows("m.low.weight", 0.5, 7, ("m", "m.low", "m.body", "head"))
        begun = mini.window(("variable", "m.low.weight", {"trainable": True}), given, *rows)
        yield [still, begun, *(mini.window(*rows) for _ in range(2))]
        # A new optimizer for the head that is trained on top of what stays.
        mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": -1}})
        yield [mini.window(*_stepping(order)) for order in (0, 0, 0, 1, 1, 1)]

        mini = Mini({"optimizer0.group0.0": {"module": ""}, "optimizer0.group0.1": {"module": ""}, **_BOTH})
        yield [mini.window(*_copied(11 + number)) for number in range(_LATER + 2)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": -1}})
        yield [mini.window(*_stepping(order)) for order in (0, 1, 0, 1)]
        mini = Mini({"model.weight": {}, "decoder.weight": {"optimizer": -1}})
        yield [mini.window(*_rows("decoder.weight", 0.5, 7)) for _ in range(3)]
        mini = Mini({"optimizer0.group0.0": {"module": ""}, "model.weight": {"optimizer": -1}})
        parts = ["module model.body", "module model.head"]
        whole = ("forward model", {"args": {"training": True}, "inside": parts})
        small = Mini({"model.body.weight": {"numel": 64}, "model.head.weight": {"optimizer": -1, "numel": 8}})
        yield [small.window(whole, *_rows("model.head.weight", 0.5, 7, ())) for _ in range(3)]
        mini = Mini({"head.weight": {}, "body.weight": {"optimizer": -1}})
        groups = {"sizes": [0, 1], "groups": [{"lr": 0.001}, {"lr": 0.01}]}
        new = ("optimizer.new optimizer0:SGD", {"args": groups})
        rows = _rows("body.weight", 0.5, 7, ("body", "head"))
        yield [mini.window(new, *rows), *(mini.window(*rows) for _ in range(2))]
        mini = Mini({"optimizer0.group0.0": {"module": ""}, "model.weight": {"optimizer": -1}})
        stale = ("gradients", {"optimizer0.group0.0": None}, {"optimizer": 0})
        yield [mini.window(stale, *_rows("model.weight", 0.5, 7)) for _ in range(3)]
        for adapter in ("m.body.up.down", "m.body.up.lora.weight"):
            mini = Mini({adapter: {"optimizer": -1}, "m.body.up.base.weight": _LARGE, "m.head.weight": {}})
            yield [mini.window(*_rows(adapter, 0.5, 7, ("m", "m.body", "m.head"))) for _ in range(_LATER + 1)]
        mini = Mini({"optimizer0.group0.0": {"module": ""}, "model.weight": {"optimizer": -1}})
        own = ("gradients", {"optimizer0.group0.0": 0.5}, {"optimizer": 0})
        yield [mini.window(own, *_rows("model.weight", 0.5, 7, ("model",))) for _ in range(_LATER + 1)]
        mini = Mini({"optimizer0.group0.0": {"module": ""}, "optimizer0.group0.1": {"module": ""}, **_BOTH})
        yield [mini.window(*_copied(11)) for _ in range(_LATER + 1)]
        mini = Mini({"head.weight": {}, "body.weight": _FROZEN})
        told: tuple[str, str, dict[str, object]] = ("variable", "body.weight", {})
        thawed = ("variable", "body.weight", {"trainable": True})
        rows = _rows("body.weight", 0.5, 7, ("body", "head"))
        yield [mini.window(told), mini.window(thawed, *rows), *(mini.window(*rows) for _ in range(2))]


_FROZEN = {"optimizer": -1, "trainable": False}
_LARGE = {**_FROZEN, "numel": 64}

_HALF = {"optimizer": -1, "dtype": "bfloat16"}
_BOTH = {"model.weight": _HALF, "model.norm": _HALF}


def _unheld(variable: Variable) -> bool:
    return variable.optimizer < 0 and variable.trainable and variable.shared < 0


def _meant_more(call: Call) -> bool:
    """Whether an optimizer was made with a group that holds nothing, and has another rate than those that do."""
    given = call.args or {}
    pairs = list(zip(given.get("sizes") or (), given.get("groups") or (), strict=False))
    rates = {group.get("lr") for size, group in pairs if size}
    return bool(rates) and any(not size and group.get("lr") not in rates for size, group in pairs)


def _stepping(optimizer: int) -> tuple[object, ...]:
    """A step of a critic, after a pass through the network below it."""
    own = (("before", {"critic.weight": (1.0, 9)}, {"optimizer": optimizer}), ("gradients", {"critic.weight": 0.5}))
    return (*own, *_rows("maker.weight", 0.5, 7, ("maker", "critic"))[:-1], f"step optimizer{optimizer}:Adam")


def _copied(bits: int) -> tuple[object, ...]:
    """A step of masters in float32, of which a matrix in half precision is what it was given, and a norm moves too little."""
    unheld = {"optimizer": -1}
    return (
        ("forward model", {"args": {"training": True}, "inside": ["module model"]}),
        "backward",
        ("gradients", {"optimizer0.group0.0": 0.5, "optimizer0.group0.1": 0.1}, {"optimizer": 0}),
        ("before", {"model.weight": (1.0, bits), "model.norm": (1.0, 7)}, unheld),
        ("gradients", {"model.weight": 0.5, "model.norm": 0.1}, unheld),
        "step optimizer0:SGD",
    )


def _rows(
    name: str, norm: float | None, bits: int, order: tuple[str, ...] = ("model", "decoder")
) -> tuple[object, ...]:
    unheld = {"optimizer": -1}
    return (
        *((f"forward {one}", {"args": {"training": True}, "inside": [f"module {one}"]}) for one in order),
        "backward",
        ("before", {name: (1.0, bits)}, unheld),
        ("gradients", {name: norm}, unheld),
        "step optimizer0:SGD",
    )
