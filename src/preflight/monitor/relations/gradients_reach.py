"""Gradients reach the parameters of modules that took part."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.flow import Flow, flow_of
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_NEVER = 2
"""Steps without a gradient, from the first on, that are one too many."""
_ALWAYS = 4
"""Steps with a gradient after which one without is a break."""


class GradientsReach(Relation):
    """The parameters of a module that took part in a training forward pass have gradients at the step.

    Where the graph is cut, by ``detach``, ``no_grad``, a conversion to numbers or a checkpointed block whose inputs need no
    gradient, everything below the cut keeps its first values. The loss falls all the same, by what lies above.
    A cut reaches down to the modules that take in the data. Where those have gradients, a module without any merely has
    an output that is not used, and nothing is said of it, unless the program itself calls it in each step, what goes into
    it takes a gradient, and none of its parameters ever gets one: then a term of the loss was left out. Modules are seen in iterations that
    are recorded in detail; in others one is taken to take part that took part whenever it was seen.
    """

    name = "gradients-reach"
    needs = frozenset({"step", "state", "module", "tensor", "forward"})
    follows = (flow_of,)
    repeats = 2
    looks = frozenset({"step", "forward", "gradient at before_step"})
    reads = frozenset({"module"})
    wakes = frozenset({"gradients of a step"})
    priority = 9
    cause = "the graph is cut above them: detach(), no_grad(), .data or .item() on the way, a cache, or re-entrant checkpointing of inputs without gradients"
    advice = "look at what lies between the last module without gradients and the first one with them"

    def __init__(self) -> None:
        self._flow = Flow()
        self._had: dict[int, int] = {}
        self._missed: dict[int, int] = {}
        self._modules: tuple[list[int], int, list[str]] = [], -1, []
        self._settled: list[int] = []  # variables of a step that all had gradients in several steps and missed none

    def quiet(self, window: Window) -> bool:
        """Whether of each variable it is known if it always has gradients, or never."""
        if len(self._settled) == len(self._had):
            return True
        return all(had >= _ALWAYS or (had == 0 and self._missed[ident] >= _NEVER) for ident, had in self._had.items())

    def kept(self) -> object:
        """Which modules take part."""
        return self._flow.habit

    def see(self, window: Window) -> Iterator[Example]:
        self._flow = flow_of(window)
        for step in steps_of(window):
            if step.gradients is None or step.closure:
                continue
            found = self._judge(step, window)
            if found is not None:
                yield found

    def _judge(self, step: Step, window: Window) -> Example | None:
        assert step.gradients is not None
        ids, norms = step.gradients.ids, step.gradients.norm
        modules = self._modules_of(ids, window)
        if None not in norms and self._settled == ids:
            took_part = any(self._flow.between(module, step.since, step.call.q) for module in modules)
            return Example((), True, {"optimizer": step.kind}) if took_part else None
        reached: set[str] = set()
        lost: list[tuple[int, str, bool]] = []
        for ident, norm, module in zip(ids, norms, modules, strict=True):
            if not self._flow.between(module, step.since, step.call.q):
                continue
            if norm is not None:
                reached.add(module)
                self._had[ident] = self._had.get(ident, 0) + 1
                self._missed[ident] = 0
                continue
            missed = self._missed[ident] = self._missed.get(ident, 0) + 1
            had = self._had.get(ident, 0)
            if had >= _ALWAYS or (had == 0 and missed >= _NEVER):
                lost.append((ident, module, had > 0))
            if had < _ALWAYS:
                self._had[ident] = min(had, 0)
        self._settled = ids if all(self._had.get(one, 0) >= _ALWAYS and not self._missed[one] for one in ids) else []
        if not reached:
            return None
        below = [(ident, module) for ident, module, before in lost if before or module not in reached]
        if not any(self._flow.source(module) for _, module in below):
            below = self._left_out(below, modules, reached)
        return self._example(step, below, reached, window)

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
            seen=f"no gradients of {len(names)} parameters; the graph is cut{where}" if below else None,
            call=_forward(step, window),
            detail=f"Parameters of modules that took part in the forward pass have no gradients: the graph is cut{where}"
            if below
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _chain(0.5, 0.5, 0.5)
        yield _chain(0.5, 0.5, None)  # an output that is not used

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _chain(None, None, 0.5)
        whole, cut = (0.5, 0.5, 0.5), (None, None, 0.5)
        yield _windows([whole, whole, whole, whole, whole, cut])


def _chain(*norms: float | None) -> list[Window]:
    return _windows([norms] * 4)


def _windows(steps: list[tuple[float | None, ...]]) -> list[Window]:
    names = ("net.embed", "net.block", "net.head")
    mini = Mini({f"{name}.weight": {} for name in names})
    found = []
    for norms in steps:
        inside = [(f"module {name}", {"inside": (_entering(name, name != "net.embed"),)}) for name in names]
        window = mini.window(
            ("forward net", {"inside": inside, "args": {"training": True}}),
            "backward",
            ("gradients", {f"{name}.weight": norm for name, norm in zip(names, norms, strict=True)}),
            "step optimizer0:SGD",
        )
        modules = {call.object: call.q for call in window.calls}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        found.append(window)
    return found


def _entering(name: str, requires_grad: bool) -> tuple[str, dict[str, object]]:
    return ("tensor", {"object": name, "position": "in0", "requires_grad": requires_grad})


def _forward(step: Step, window: Window) -> Call:
    forwards = [call for call in window.named("forward") if call.q < step.call.q]
    return forwards[-1] if forwards else step.call
