"""Gradients reach the parameters of modules that took part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.cuts import cuts_between
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.views.flow import Flow, flow_of
from preflight.monitor.views.paths import outer_modules
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_NEVER = 2
"""Steps without a gradient, from the first on, that are one too many."""
_ALWAYS = 4
"""Steps with a gradient after which one without is a break."""
_UNSEEN = 3
"""Steps in a row in which the same parameters have no gradient, where nobody saw whether their modules took part."""


class GradientsReach(Relation):
    """The parameters of a module that took part in a training forward pass have gradients at the step.

    Where the graph is cut, by ``detach``, ``no_grad``, a conversion to numbers or a checkpointed block whose inputs need no
    gradient, everything below the cut keeps its first values. The loss falls all the same, by what lies above.
    A network beside the one that is trained, run without gradients on the same inputs, such as a teacher, is not below a cut.
    A cut reaches down to the modules that take in the data, or to layers that add something trained to frozen parts of
    theirs, as adapters do, and are given what needs no gradient. Where those have gradients, a module without any merely
    has an output that is not used, and nothing is said of it, unless the program itself calls it in each step, what goes
    into it takes a gradient, and none of its parameters ever gets one: then a term of the loss was left out. Nor does an output
    go unused that the next module is given without its graph: where no parameter of a part of a model ever gets a gradient,
    and what is called after it takes in a tensor of the very form of its output that needs none, and of no form that the
    data has, the graph was cut between the two, unless that one takes in something else with a graph, too. Where all that
    has gradients is a parameter that is part of no module, such as an offset, the networks that took part and never had any
    are named from the third step on. Modules are seen in iterations that
    are recorded in detail; in others one is taken to take part that took part whenever it was seen. A block that is left out
    of some passes at random looks the same there: where no parameter of a module has a gradient, it must be so three times
    in a row, and never have been for less. So it must where a block that had gradients before took part and the next one is
    given the like of what that block was given, without a graph: its result may have been dropped at random, too. What moves
    although it had no gradient at the step before is moved by the program itself, such as the codes of a quantisation that
    follow averages, and is none of these. Where the program's text cuts the graph under a condition on how far the training
    is (``no_grad() if step < warm_up``), parts that had no gradient yet may wait for their turn, and only a break is told.
    """

    name = "gradients-reach"
    needs = frozenset({"step", "state", "module", "tensor", "forward", "staged"})
    follows = (flow_of, looks_of)
    repeats = 2
    looks = frozenset({"step", "forward", "gradient at before_step", "staged"})
    reads = frozenset({"module"})
    wakes = frozenset({"gradients of a step", "staged"})
    priority = 9
    cause = "the graph is cut above them: detach(), no_grad(), .data or .item() on the way, a cache, or re-entrant checkpointing of inputs without gradients"
    advice = "look at what lies between the last module without gradients and the first one with them"

    def __init__(self) -> None:
        self._flow = Flow()
        self._had: dict[int, int] = {}
        self._missed: dict[int, int] = {}
        self._modules: tuple[list[int], int, list[str]] = [], -1, []
        self._suspected: dict[
            int, tuple[frozenset[int], int]
        ] = {}  # by optimizer: without gradients, modules unseen; times
        self._pausing: set[int] = set()  # of these, such as had gradients again later
        self._without: set[int] = set()  # variables that had no gradient at the last step that looked at them
        self._by_hand: set[int] = set()  # of these, such as have moved all the same
        self._ended = -1  # where the last step before this window ended
        self._given: dict[str, tuple[Any, ...]] = {}  # by module: the data that went into it when it was last seen
        self._cuts: dict[str, str] = {}  # by module with a graph: the next one, where it is given the like without one
        self._apart: set[str] = set()  # modules that ran without gradients then
        self._staged = False  # whether the text cuts the graph as long as the training has not come to some point
        self._settled: list[int] = []  # variables of a step that all had gradients in several steps and missed none

    def quiet(self, window: Window) -> bool:
        """Whether of each variable it is known if it always has gradients, or never."""
        if self._suspected:
            return False
        if len(self._settled) == len(self._had):
            return True
        return all(had >= _ALWAYS or (had == 0 and self._missed[ident] >= _NEVER) for ident, had in self._had.items())

    def kept(self) -> object:
        """Which modules take part, and which are given what has lost its graph."""
        return self._flow.habit, tuple(sorted(self._cuts.items()))

    def see(self, window: Window) -> Iterator[Example]:
        self._flow = flow_of(window)
        self._staged = self._staged or any((call.args or {})["cuts"] for call in window.named("staged"))
        self._look(window)
        for look in looks_of(window):
            self._by_hand.update(self._without.intersection(look.moved))
        for step in steps_of(window):
            if step.gradients is None or step.closure:
                continue
            found = self._judge(step, window)
            if found is not None:
                yield found
        self.slept(window, 1)

    def slept(self, window: Window, times: int) -> None:
        """Know where the last step ended."""
        self._ended = max((call.e for call in window.named("step")), default=self._ended)

    def _look(self, window: Window) -> None:
        """Remember what went into modules, and which of them ran without gradients."""
        calls = window.named("module")
        if not calls:
            return
        if self._flow.seen:
            self._cuts = cuts_between(calls, window)
        self._apart.difference_update(call.object for call in calls)
        self._apart.update(call.object for call in calls if call.context.startswith("nograd"))
        for seen in window.tensors:
            if seen.position == "in0":
                self._given.pop(seen.object, None)
            if seen.position == "in0" and not seen.requires_grad:
                self._given[seen.object] = (*seen.shape, seen.dtype, seen.norm)

    def _beside(self, below: list[tuple[int, str]], reached: set[str]) -> bool:
        """Whether what has no gradients ran without them on inputs that what has gradients was given as well."""
        lost = {module for _, module in below}
        if not lost or not lost <= self._apart:
            return False
        first = min(lost, key=lambda module: self._flow.called.get(module, -1))
        entered, others = _parts({first}) - _parts(reached), _parts(reached) - _parts(lost)
        given, taken = ({self._given[one] for one in parts if one in self._given} for parts in (entered, others))
        return not given.isdisjoint(taken)

    def _passed_by(self, below: list[tuple[int, str]], reached: set[str]) -> bool:
        """Whether the next module with gradients was given the like of what the first without was given, with no graph."""
        lost, called = {module for _, module in below}, self._flow.called
        last = max((called.get(module, -1) for module in lost), default=-1)
        above = [module for module in reached if called.get(module, -1) > last]
        if not lost or not above:
            return False
        first, following = (min(some, key=lambda module: called.get(module, -1)) for some in (lost, above))
        entered, taken = _parts({first}) - _parts(reached), _parts({following}) - _parts(lost)
        given, again = ({self._given[one] for one in parts if one in self._given} for parts in (entered, taken))
        return any(norm is not None for *_, norm in given & again)  # of the same shape alone many things are

    def _judge(self, step: Step, window: Window) -> Example | None:
        assert step.gradients is not None
        ids, norms = step.gradients.ids, step.gradients.norm
        modules = self._modules_of(ids, window)
        since = step.since if step.since >= 0 else self._ended  # a new optimizer has no part in what was before it
        if None not in norms and self._settled == ids and step.optimizer not in self._suspected:
            took_part = any(self._flow.between(module, since, step.call.q) for module in modules)
            return Example((), True, {"optimizer": step.kind}) if took_part else None
        self._without.difference_update(ids)
        self._without.update(compress(ids, (norm is None for norm in norms)))
        reached: set[str] = set()
        lost: list[tuple[int, str, bool]] = []
        for ident, norm, module in zip(ids, norms, modules, strict=True):
            if not self._flow.between(module, since, step.call.q):
                continue
            if norm is not None:
                reached.add(module)
                self._had[ident] = self._had.get(ident, 0) + 1
                self._missed[ident] = 0
                continue
            if ident in self._by_hand:
                continue
            missed = self._missed[ident] = self._missed.get(ident, 0) + 1
            had = self._had.get(ident, 0)
            if had >= _ALWAYS or (had == 0 and missed >= _NEVER and not self._staged):
                lost.append((ident, module, had > 0))
            if had < _ALWAYS:
                self._had[ident] = min(had, 0)
        self._settled = ids if all(self._had.get(one, 0) >= _ALWAYS and not self._missed[one] for one in ids) else []
        if not reached:
            alone = self._alone(lost, norms)
            return self._example(step, alone, reached, window) if alone else None
        below = [(ident, module) for ident, module, before in lost if before or module not in reached]
        sure = self._flow.seen and not (all(before for *_, before in lost) and self._passed_by(below, reached))
        below = self._confirmed(step.optimizer, below, reached, dict(zip(ids, norms, strict=True)), sure)
        if not self._adapts(below, window):
            if self._beside(below, reached):
                below = []
            if not any(self._flow.source(module) for _, module in below):
                below = self._left_out(below, modules, reached) or self._cut_off(below, modules)
        return self._example(step, below, reached, window)

    def _confirmed(
        self,
        optimizer: int,
        below: list[tuple[int, str]],
        reached: set[str],
        norms: dict[int, float | None],
        sure: bool,
    ) -> list[tuple[int, str]]:
        """Of parameters without gradients, those whose modules took part for sure, or that stay without."""
        before, times = self._suspected.pop(optimizer, (frozenset[int](), 0))
        self._pausing.update(ident for ident in before if norms.get(ident) is not None)
        if sure:
            return below
        some = [pair for pair in below if pair[1] in reached]  # another parameter of the module has a gradient
        rest = [pair for pair in below if pair[1] not in reached and pair[0] not in self._pausing]
        now = frozenset(ident for ident, _ in rest)
        times = times + 1 if now == before else 1
        if now:
            self._suspected[optimizer] = now, times
        return [*some, *rest] if times >= _UNSEEN else some

    def _alone(self, lost: list[tuple[int, str, bool]], norms: list[float | None]) -> list[tuple[int, str]]:
        """All parameters of networks that the program calls, where only what is part of none has gradients."""
        never = [(one, module) for one, module, _ in lost if not self._had.get(one) and self._missed[one] >= _UNSEEN]
        if len(never) < norms.count(None) or all(norm is None for norm in norms):
            return []
        return [pair for pair in never if pair[1].partition(".")[0] in self._flow.roots]

    def _left_out(self, below: list[tuple[int, str]], modules: list[str], reached: set[str]) -> list[tuple[int, str]]:
        """Of parameters without gradients, those of parts of a model that the program calls and that never had any."""
        never = {module for ident, module in below if not self._had.get(ident, 0) and self._missed[ident] > _NEVER}
        parts = {name for name in self._flow.roots if "." in name and name not in self._flow.fed}
        whole = {
            part
            for part in parts
            if (held := {one for one in modules if one == part or one.startswith(part + ".")}) and held <= never
        }
        return [pair for pair in below if any(pair[1] == part or pair[1].startswith(part + ".") for part in whole)]

    def _cut_off(self, below: list[tuple[int, str]], modules: list[str]) -> list[tuple[int, str]]:
        """Of parameters without gradients, those of parts that never had any, behind which the graph ends."""
        never = {module for ident, module in below if not self._had.get(ident, 0)}
        whole = [
            part
            for part in self._cuts
            if (held := {one for one in modules if one == part or one.startswith(part + ".")}) and held <= never
        ]
        return [pair for pair in below if any(pair[1] == part or pair[1].startswith(part + ".") for part in whole)]

    def _adapts(self, below: list[tuple[int, str]], window: Window) -> bool:
        """Whether a layer that adds trained weights to frozen parts of its own was given what needs no gradient."""
        layers = {module for _, module in below if module in self._flow.fed and module not in self._flow.roots}
        if not layers & self._flow.inner:
            return False
        held = [one for one in window.run.variables.values() if one.kind == "parameter"]
        for layer in layers & self._flow.inner:
            inside = [
                one.trainable
                for one in held
                if one.name.startswith(layer + ".") and one.name.count(".") > layer.count(".") + 1
            ]
            if inside and not any(inside):
                return True
        return False

    def _modules_of(self, ids: list[int], window: Window) -> list[str]:
        """The modules of variables."""
        changes = window.run.variables.changes
        if self._modules[1] != changes or self._modules[0] != ids:
            self._modules = ids, changes, [window.run.name(ident).rpartition(".")[0] for ident in ids]
        return self._modules[2]

    def _example(self, step: Step, below: list[tuple[int, str]], reached: set[str], window: Window) -> Example:
        names = tuple(window.run.name(ident) for ident, _ in below)
        last = max((module for _, module in below), key=lambda module: self._flow.called[module], default="")
        above = [module for module in reached if below and self._flow.called[module] > self._flow.called[last]]
        first = min(above, key=lambda module: self._flow.called[module], default="")
        where = f" between {last} and {first}" if first else ""
        return Example(
            (),
            not below,
            {"optimizer": step.kind},
            variables=names,
            expected="gradients of all modules that took part",
            seen=f"no gradients of {counted(len(names), 'parameter')}; the graph is cut{where}" if below else None,
            call=_forward(step, window),
            detail=f"Parameters of modules that took part in the forward pass have no gradients: the graph is cut{where}"
            if below
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _chain(0.5, 0.5, 0.5)
        yield _chain(0.5, 0.5, None)  # an output that is not used
        whole, pause = (0.5, 0.5, 0.5), (None, 0.5, 0.5)
        yield _taught()
        yield _windows([whole] * 5 + [pause, pause, whole, pause, pause, pause], seen=5)  # left out of some passes
        yield _windows([whole] * 5 + [pause, whole, pause, pause, whole], passed_by=True)  # took part, and was dropped
        yield _adapted(0.5)
        yield _bottleneck(0.5)
        yield _windows([(None, 0.5, 0.5)] * 4, by_hand="net.embed")
        yield _bottleneck(None, cut=False)  # an output that is not used
        yield _bottleneck(None, shape=(8, 8))  # and what comes next is given data
        yield _bottleneck(None, beside=True)  # or noise, beside what has a graph

        yield _windows([(None, None, 0.5)] * 4, staged=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _chain(None, None, 0.5)
        whole, cut = (0.5, 0.5, 0.5), (None, None, 0.5)
        yield _windows([whole, whole, whole, whole, whole, cut])
        yield _windows([whole] * 5 + [cut] * 3, seen=5)
        yield _windows([whole] * 5 + [(None, 0.5, 0.5)] * 3, passed_by=True)
        yield _adapted(None)
        yield _bottleneck(None)


def _parts(modules: set[str]) -> set[str]:
    """Modules and all that they are parts of."""
    return modules.union(*map(outer_modules, modules))


def _chain(*norms: float | None) -> list[Window]:
    return _windows([norms] * 4)


def _windows(
    steps: list[tuple[float | None, ...]],
    seen: int = 99,
    by_hand: str = "",
    staged: bool = False,
    passed_by: bool = False,
) -> list[Window]:
    """Iterations with these gradients, of which the first so many are recorded in detail; the program moves one part itself.

    ``staged`` where its text cuts the graph as long as the training has not come to some point. A part that is passed by
    has no gradient, and the next one is given what it was given.
    """
    names = ("net.embed", "net.block", "net.head")
    mini = Mini({f"{name}.weight": {} for name in names})
    found = []
    for number, norms in enumerate(steps):
        detailed = names if number < seen else ()
        plain = {"net.embed", "net.block"} if passed_by and norms[0] is None else {"net.embed"}
        inside = [(f"module {name}", {"inside": (_entering(name, name not in plain),)}) for name in detailed]
        window = mini.window(
            *([("staged", {"args": {"cuts": True, "steps": False}})] if staged and not number else []),
            ("forward net", {"inside": inside, "args": {"training": True}}),
            "backward",
            ("gradients", {f"{name}.weight": norm for name, norm in zip(names, norms, strict=True)}),
            *([("before", {f"{by_hand}.weight": (1.0, number)}, {"optimizer": 0})] if by_hand else []),
            "step optimizer0:SGD",
        )
        modules = {call.object: call.q for call in window.calls}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        found.append(window)
    return found


def _taught() -> list[Window]:
    """A student and a teacher that one model runs on the same inputs, the teacher without gradients."""
    names = ("net.teacher.fc", "net.student.fc")
    mini = Mini({f"{name}.weight": {} for name in names})
    found = []
    for _ in range(4):
        inside = [
            (f"module {name}", {"inside": (_entering(name, False),), "context": context})
            for name, context in zip(names, ("nograd", "grad"), strict=True)
        ]
        window = mini.window(
            ("forward net", {"inside": inside, "args": {"training": True}}),
            "backward",
            ("gradients", {f"{names[0]}.weight": None, f"{names[1]}.weight": 0.5}),
            "step optimizer0:SGD",
        )
        modules = {call.object: call.q for call in window.calls}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        found.append(window)
    return found


def _adapted(norm: float | None) -> list[Window]:
    """An adapter around a frozen layer of a block, whose input needs no gradient, and a head that is trained."""
    names = ("net.block.fc", "net.block.fc.base", "net.head")
    mini = Mini({f"{names[0]}.lora": {}, f"{names[1]}.weight": {"trainable": False}, f"{names[2]}.weight": {}})
    found = []
    for _ in range(4):
        base = (f"module {names[1]}", {"inside": (_entering(names[1], False),)})
        inside = [
            (f"module {names[0]}", {"inside": (_entering(names[0], False), base)}),
            (f"module {names[2]}", {"inside": (_entering(names[2], norm is not None),)}),
        ]
        window = mini.window(
            ("forward net", {"inside": inside, "args": {"training": True}}),
            "backward",
            ("gradients", {f"{names[0]}.lora": norm, f"{names[2]}.weight": 0.5}),
            "step optimizer0:SGD",
        )
        modules = {call.object: call.q for call in window.calls}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        found.append(window)
    return found


def _bottleneck(
    norm: float | None, cut: bool = True, shape: tuple[int, int] = (8, 2), beside: bool = False
) -> list[Window]:
    """A model whose deepest block hands on its output with or without a graph, while the blocks before it are trained."""
    names = ("net.down", "net.deep", "net.up")
    mini = Mini({f"{name}.weight": {} for name in names})
    found = []
    for _ in range(4):
        inside = []
        for name in names:
            needs = name == "net.deep" or (name == "net.up" and not (cut and norm is None))
            ends = (("in0", needs), ("out0", True))
            rows = [{"object": name, "position": end, "shape": shape, "requires_grad": graph} for end, graph in ends]
            inside.append((f"module {name}", {"inside": tuple(("tensor", row) for row in rows)}))
        again: list[Any] = ["module net.up"] if beside else []
        window = mini.window(
            ("batch", {"loader": "forward:net", "shapes": [[8, 8]], "bits": [7]}),
            ("forward net", {"inside": [*inside, *again], "args": {"training": True}}),
            "backward",
            ("gradients", {f"{name}.weight": norm if name == "net.deep" else 0.5 for name in names}),
            "step optimizer0:SGD",
        )
        modules = {call.object: call.q for call in reversed(window.calls)}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        last = window.named("module")[-1].q
        fed = next(one for one in window.tensors if one.object == "net.up" and one.position == "in0")
        window.tensors += [fed._replace(call=last, requires_grad=True)] if beside else []
        found.append(window)
    return found


def _entering(name: str, requires_grad: bool) -> tuple[str, dict[str, object]]:
    return ("tensor", {"object": name, "position": "in0", "requires_grad": requires_grad})


def _forward(step: Step, window: Window) -> Call:
    forwards = [call for call in window.named("forward") if call.q < step.call.q]
    return forwards[-1] if forwards else step.call
