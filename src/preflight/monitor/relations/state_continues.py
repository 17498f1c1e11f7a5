"""The state of an optimizer goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_CLOSE = 1e-7
_WORN = 3
"""Steps after which a state is worth keeping; so is that of one step where so many optimizers in a row make only one."""


class _Kept(NamedTuple):
    """What is known of an optimizer that has state.

    Attributes:
        kind: Its class.
        word: What it is called.
        settings: Of its groups, as it was made.
        steps: How many it had made when its weights were looked at last.
        s: The run's own count of steps at the last of them.
        weights: As that step left them.
        row: How many optimizers in a row took over from each other after one step, this one included.
        first: The number of its first step.
    """

    kind: str
    word: str
    settings: list[dict[str, Any]]
    steps: int
    s: int
    weights: State
    row: int
    first: int


class _Look(NamedTuple):
    """A count as it was when it was looked at.

    Attributes:
        value: The count.
        done: How many steps before the one after which it was looked at are known.
        s: The run's own count of steps at that one.
        excess: By how much the count had grown faster than the steps, in each step.
    """

    value: float
    done: int
    s: int
    excess: float


class StateContinues(Relation):
    """An optimizer that goes on training the same weights goes on with its state.

    Momentum, second moments and step counts start from zero where a new optimizer of the same kind, with the same settings
    and for the same parameters takes over the weights as the old one left them: it is made anew in every epoch or for every
    step, or a run was resumed from a checkpoint of the weights alone. A count of steps that falls without a load is the same, and one
    that grows by more than the steps that are made, by as much in each of them at two looks in a row, counts something
    else. A step that raised, or of which nothing is known, makes no such growth.
    An optimizer of another kind, other settings, other parameters or other weights is a new phase of training; so is one
    for layers of another size in the place of the old ones, one for weights under masks of ``torch.nn.utils.prune``,
    which every round of pruning changes beside the weights, and one whose loaders read another data set, as where a client
    of a federation, or a round with more labels, takes its turn. One that was made before the other's first step does not
    take over from it: a model that has an optimizer for each of its losses is trained by both in turn.
    It compares what one process did before with what it does now; of a process that was started anew, where there is no
    before, ``optimizer-resumes`` judges.
    """

    name = "state-continues"
    needs = frozenset({"step", "state", "optimizer.new", "load_state_dict"})
    wakes = frozenset(
        {
            "optimizer.new",
            "load_state_dict",
            "scalar lr",
            "optimizer at after_step",
            "parameters before a step",
            "parameters after a step",
        }
    )
    follows = (fetches_of,)
    repeats = 2
    looks = frozenset({"step", "parameter at after_step"})  # those before it at the first step of an optimizer alone
    reads = frozenset({"optimizer.new", "load_state_dict", "scalar lr", "optimizer at after_step"})
    severity = "warning"
    priority = 22
    cause = "the optimizer is made inside the loop over epochs, or its state is not in the checkpoint that a run goes on from"
    advice = "make the optimizer once, and save and load its state_dict together with that of the model"

    def __init__(self) -> None:
        self._settings: dict[str, list[dict[str, Any]]] = {}
        self._rates: dict[str, float | None] = {}  # by optimizer and group: the rate now
        self._kept: dict[int, _Kept] = {}
        self._counts: dict[tuple[int, int], _Look] = {}  # by optimizer and variable
        self._loaded: set[str] = set()
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._data: int | None = None  # the data set that was trained on last
        self._data_of: dict[int, int | None] = {}  # by optimizer: that of its last step
        self._row: dict[int, int] = {}  # by optimizer: see _Kept
        self._first: dict[int, int] = {}  # by optimizer: the number of its first step
        self._made: dict[str, int] = {}  # by optimizer: where it was made

    def slept(self, window: Window, times: int) -> None:
        """Know the weights that the last step left."""
        for _ in self.see(window):
            pass

    def kept(self) -> object:
        """Nothing: a new optimizer is told of where it is made, and of others it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        replaced = self._replaced(window)
        if replaced:
            self._kept = {index: kept for index, kept in self._kept.items() if not replaced & {*kept.weights.ids}}
        for call in window.named("optimizer.new"):
            self._settings[call.object] = (call.args or {}).get("groups") or []
            self._made[call.object] = call.q
        for call in window.named("load_state_dict"):
            if call.object.startswith("optimizer"):
                self._loaded.add(call.object)
        self._rates.update({one.object: one.value for one in window.numbers if one.name == "lr"})
        states = [one for one in window.states if one.what == "optimizer" and one.moment == "after_step"]
        given = [one for one in fetches_of(window) if one.trained]
        for step in steps_of(window):
            self._data = next(
                (one.facts.get("dataset") for one in reversed(given) if one.batch.q < step.call.q), self._data
            )
            self._first.setdefault(step.optimizer, step.call.q)
            told = step.call.args or {}
            if told.get("states") == 0 and told.get("written"):  # begun anew from other weights
                self._counts = {key: look for key, look in self._counts.items() if key[0] != step.optimizer}
            if step.done == 0 and step.before is not None:
                yield self._taken_over(step, step.before, window)
            own = [
                one for one in states if one.q > step.call.e and (one.extra or {}).get("optimizer") == step.optimizer
            ]
            if own:
                yield from self._grows(step, own[0], window)
            self._data_of[step.optimizer] = self._data
            kept = self._kept.get(step.optimizer)
            if step.after is not None and (own or kept is not None):
                self._kept[step.optimizer] = _Kept(
                    step.kind,
                    step.call.object,
                    self._settings.get(step.call.object) or [],
                    step.done + 1,
                    step.call.s,
                    step.after,
                    self._row.get(step.optimizer, 1),
                    self._first[step.optimizer],
                )

    def _replaced(self, window: Window) -> set[int]:
        """Return the variables in whose place there are others now, of another shape."""
        found = set()
        for one in window.changed:
            shape = tuple(one.shape)
            if self._shapes.setdefault(one.id, shape) != shape:
                self._shapes[one.id] = shape
                found.add(one.id)
        return found

    def _taken_over(self, step: Step, before: State, window: Window) -> Example:
        """Whether a new optimizer takes over what another one with state has trained."""
        now = _values(before)
        settings = self._settings.get(step.call.object) or []
        fresh = step.call.object not in self._loaded and bool(settings)
        old = [
            index
            for index, kept in self._kept.items()
            if index != step.optimizer
            and kept.kind == step.kind
            and kept.first < self._made.get(step.call.object, step.call.q)
            and self._alike(kept, settings)
            and kept.weights.ids == before.ids
            and self._same_data(index)
            and (_all_same(_values(kept.weights), now) or _went_on(kept, step))
        ]
        taken = [self._kept[index] for index in old]
        worn = [kept for kept in taken if kept.steps >= _WORN]
        single = [index for index in old if self._kept[index].steps == 1 and _between(self._kept[index], step) == 0]
        row = self._row[step.optimizer] = 1 + max((self._kept.pop(index).row for index in single), default=0)
        wrong = fresh and (bool(worn) or row >= _WORN) and not _pruned(before, window)
        seen = f"a new optimizer in each of {row} steps"
        if worn:
            seen = f"no state, after {worn[-1].steps + _between(worn[-1], step)} steps of the one before"
        return self._example(step, before.ids if wrong else [], seen, window)

    def _same_data(self, index: int) -> bool:
        """Whether what is trained on now is what an optimizer was last stepped on, as far as is known."""
        before = self._data_of.get(index)
        return before is None or self._data is None or before == self._data

    def _alike(self, kept: _Kept, settings: list[dict[str, Any]]) -> bool:
        """Whether settings are those of an optimizer: with the rate that it began with, or that a schedule gave it."""
        if len(kept.settings) != len(settings):
            return False
        for number, (old, new) in enumerate(zip(kept.settings, settings, strict=True)):
            rates = (old.get("lr"), self._rates.get(f"{kept.word}.{number}"))
            if {**old, "lr": None} != {**new, "lr": None} or new.get("lr") not in rates:
                return False
        return True

    def _grows(self, step: Step, state: State, window: Window) -> Iterator[Example]:
        """Whether the counts of steps have grown, and by no more than the steps that were made."""
        fell, leapt = [], []
        told = dict(
            zip(state.ids, (state.extra or {}).get("steps") or (), strict=False)
        )  # of each of its tensors alike
        for ident, count in told.items():
            if count is None:
                continue
            key = step.optimizer, ident
            before = self._counts.get(key)
            if before is None and step.done == 0 and (step.call.args or {}).get("states") == 0:
                before = _Look(0, -1, step.call.s - 1, 0)  # it had no state before this step
            excess = 0.0
            if before is not None and step.call.object not in self._loaded:
                if count < before.value:
                    fell.append(ident)
                excess = _excess(before, count, step)
                if excess > 0 and excess == before.excess:
                    leapt.append(ident)
            self._counts[key] = _Look(count, step.done, step.call.s, excess)
        self._loaded.discard(step.call.object)
        yield self._example(step, list(dict.fromkeys(fell)), "a count of steps that fell", window)
        if leapt:
            names = tuple(window.run.name(ident) for ident in dict.fromkeys(leapt))
            yield Example(
                (),
                False,
                {"optimizer": step.kind},
                variables=(step.call.object, "step", *names),
                expected="a count that grows by one in each step",
                seen=f"a count of steps that grew faster, for {counted(len(names), 'parameter')}",
                call=step.call,
                detail="An optimizer counts more steps than it makes, and corrects its moments by the wrong count",
            )

    @staticmethod
    def _example(step: Step, ids: list[int], seen: str, window: Window) -> Example:
        return Example(
            (),
            not ids,
            {"optimizer": step.kind},
            variables=(step.kind, *(window.run.name(ident) for ident in ids)) if ids else (),
            expected="the state of the steps before",
            seen=seen if ids else None,
            call=step.call,
            detail="An optimizer starts again without state on weights that one like it has trained" if ids else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _two("Adam", "SGD", 1.0)
        yield _two("Adam", "Adam", 2.0)
        yield _thinned("Adam", written=False, replaced=True)
        yield _thinned("Adam", written=True)
        yield _thinned("SGD", written=False)
        yield _thinned("Adam", written=False, shape=[2])
        yield _two("Adam", "Adam", 1.0, "model.weight_orig", {"model.weight_mask": {"kind": "buffer", "optimizer": -1}})
        yield _two("Adam", "Adam", 1.0, data=(0, 1))
        yield _counted(1, 2, 3)
        yield _counted(1, 3, 4, 5)
        yield _counted(2, 3, 4)
        yield _made_for_each(3, state=False)
        yield _made_for_each(2)
        yield _in_turn()

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _two("Adam", "Adam", 1.0)
        yield _two("Adam", "Adam", 1.0, data=(0, 0))
        yield _thinned("Adam", written=False)
        yield _counted(1, 4, 7)
        yield _made_for_each(3)


def _pruned(weights: State, window: Window) -> bool:
    """Whether weights lie under masks: ``torch.nn.utils.prune`` keeps ``weight_orig`` beside a buffer ``weight_mask``."""
    names = {one.name for one in window.run.variables.values() if one.kind == "buffer"}
    own = (window.run.name(ident) for ident in weights.ids)
    return any(name.endswith("_orig") and f"{name.removesuffix('_orig')}_mask" in names for name in own)


def _between(kept: _Kept, step: Step) -> int:
    """How many steps lie between the last one of an optimizer that was looked at and the first one of another."""
    return max(step.call.s - kept.s - 1, 0)


def _went_on(kept: _Kept, step: Step) -> bool:
    """Whether only steps lie between the weights that are known of an optimizer and those that another one finds.

    Its last steps were not looked at, nobody has written to the weights since the last one, and no others stand in their
    place, as those of the next model do in a cross validation.
    """
    told = step.call.args or {}
    return _between(kept, step) > 0 and not told.get("written") and not told.get("replaced")


def _excess(before: _Look, count: float, step: Step) -> float:
    """By how much a count grew faster than the steps since it was looked at; 0 where steps were made that are not known."""
    made = step.done - before.done
    if made <= 0 or step.call.s - before.s > made:
        return 0.0
    return (count - before.value - made) / made


def _two(
    first: str,
    second: str,
    weight: float,
    name: str = "model.weight",
    beside: Mapping[str, dict[str, object]] | None = None,
    data: tuple[int, ...] = (),
) -> list[Window]:
    """Two optimizers one after the other, each fed by a loader of its own over these data sets."""
    mini = Mini({name: {}, **(beside or {})})
    found = []
    for index, kind, value in ((0, first, 1.0), (1, second, weight)):
        made = (f"optimizer.new optimizer{index}:{kind}", {"args": {"groups": [{"lr": 0.1}]}})
        owner = {"optimizer": index}
        steps = (
            (
                ("before", {name: value}, owner),
                f"step optimizer{index}:{kind}",
                ("after", {name: value}, owner),
                ("states", {name: 0.5}, {**owner, "steps": [number + 1.0]}),
            )
            for number in range(4)
        )
        read: list[Any] = []
        if data:
            read = [(f"loader.new loader{index}", {"args": {"dataset": data[index]}}), f"fetch loader{index}"]
            read += [("batch", {"loader": f"loader{index}", "fetch": 0}), "forward model", "backward"]
        found.append(mini.window(made, *read, *(row for rows in steps for row in rows)))
    return found


def _in_turn() -> list[Window]:
    """Two optimizers of one model, made one after the other and before any step, that take turns."""
    mini = Mini({"model.weight": {}})
    found = [mini.window(*((f"optimizer.new optimizer{n}:Adam", {"args": {"groups": [{"lr": 0.1}]}}) for n in (0, 1)))]
    for index in (0, 1, 0):
        owner = {"optimizer": index}
        steps = (
            (
                ("before", {"model.weight": 1.0}, owner),
                f"step optimizer{index}:Adam",
                ("after", {"model.weight": 1.0}, owner),
                ("states", {"model.weight": 0.5}, {**owner, "steps": [number + 1.0 + 4 * (len(found) == 3)]}),
            )
            for number in range(4)
        )
        found.append(mini.window(*(row for rows in steps for row in rows)))
    return found


def _made_for_each(count: int, state: bool = True) -> list[Window]:
    """As many steps, each of a new optimizer with the weights that the one before left, with a state or without."""
    mini = Mini({"model.weight": {}})
    found = []
    for index in range(count):
        owner = {"optimizer": index}
        held = [("states", {"model.weight": 0.5}, {**owner, "steps": [1.0]})] if state else []
        made = (f"optimizer.new optimizer{index}:Adam", {"args": {"groups": [{"lr": 0.1}]}})
        moved = (("before", {"model.weight": 1.0 + index}, owner), f"step optimizer{index}:Adam")
        found.append(mini.window(made, *moved, ("after", {"model.weight": 2.0 + index}, owner), *held))
    return found


def _thinned(second: str, written: bool, shape: list[int] | None = None, replaced: bool = False) -> list[Window]:
    """One optimizer takes over from another whose last steps were not looked at, perhaps weights of another shape."""
    mini = Mini({"model.weight": {}})
    told: list[tuple[str, str, dict[str, object]]] = [("variable", "model.weight", {})] if shape else []
    changed: list[tuple[str, str, dict[str, object]]] = (
        [("variable", "model.weight", {"shape": shape})] if shape else []
    )
    known, new = {"optimizer": 0}, {"optimizer": 1}
    groups = {"args": {"groups": [{"lr": 0.1}]}}
    looked = (
        ("before", {"model.weight": 1.0}, known),
        "step optimizer0:Adam",
        ("after", {"model.weight": 1.0}, known),
        ("states", {"model.weight": 0.5}, {**known, "steps": [1.0]}),
    )
    more = {**({"written": [0]} if written else {}), **({"replaced": True} if replaced else {})}
    given = {"args": {"closure": False, **more}}
    return [
        mini.window(*told, ("optimizer.new optimizer0:Adam", groups), *looked, *looked, *looked),
        mini.window("step optimizer0:Adam", "step optimizer0:Adam"),
        mini.window(
            *changed,
            (f"optimizer.new optimizer1:{second}", groups),
            ("before", {"model.weight": 2.0}, new),
            (f"step optimizer1:{second}", given),
            ("after", {"model.weight": 3.0}, new),
        ),
    ]


def _counted(*counts: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    owner = {"optimizer": 0}
    return [
        mini.window(
            "step optimizer0:Adam",
            ("after", {"model.weight": 1.0 + count}, owner),
            ("states", {"model.weight": 0.5}, {**owner, "steps": [float(count)]}),
        )
        for count in counts
    ]


def _values(state: State) -> dict[int, tuple[float | None, int | None]]:
    bits = state.bits or [None] * len(state.ids)
    return dict(zip(state.ids, zip(state.norm, bits, strict=True), strict=True))


def _all_same(
    before: dict[int, tuple[float | None, int | None]], now: dict[int, tuple[float | None, int | None]]
) -> bool:
    return all(_same(before[ident], now[ident]) for ident in now)


def _same(one: tuple[float | None, int | None], other: tuple[float | None, int | None]) -> bool:
    if one[1] is not None and other[1] is not None:
        return one[1] == other[1]
    if one[0] is None or other[0] is None:
        return one[0] is other[0]
    return abs(one[0] - other[0]) <= _CLOSE * max(abs(one[0]), abs(other[0]))
