"""Which modules took part in forward passes that train, in which order, and which of them take in data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from preflight.monitor.window import Call, Window, within


class _Known:
    """What windows in which modules were seen have said: it stays as it is until there is another."""

    def __init__(self, before: _Known | None = None) -> None:
        self.called: dict[str, int] = before.called if before else {}
        self.latest: int = before.latest if before else -1  # the number of the last of these calls
        self.fed: set[str] = before.fed if before else set()
        self.inner: set[str] = before.inner if before else set()
        self.habit: int = before.habit if before else 0
        self.took: set[str] = before.took if before else set()
        # By root: windows with a forward pass that trains in which its modules were seen.
        self.passes: Counter[str] = Counter(before.passes if before else ())
        self.part: Counter[str] = Counter(before.part if before else ())  # by module: in how many of them it took part

    def after(self, roots: list[Call], modules: list[Call], window: Window) -> _Known:
        """The same with the modules within forward passes that train."""
        known = _Known(self)
        parts = [within(modules, one) for one in roots]
        inside = parts[0] if len(parts) == 1 else sorted({call.q: call for one in parts for call in one}.values())
        calls = [*roots, *inside]
        last = {call.object: call.q for call in calls}
        took = set(last)
        if not took <= self.called.keys():
            known.inner = self.inner.union(*(_outer(name) for name in took - self.called.keys()))
        known.called = {**self.called, **last}
        if len(parts) != 1 or calls[0].q <= self.latest:  # else they came one after the other, and after all before
            known.called.update(_latest(calls, self.called))
        known.latest = max([self.latest, *(one[-1].q for one in (roots, inside) if one)])
        inputs = {seen.call: seen.requires_grad for seen in window.tensors if seen.position == "in0"}
        known.fed = (self.fed - took).union([name for name, q in last.items() if inputs.get(q) is False])
        known.habit += took != self.took or known.fed != self.fed
        known.took = took
        known.passes.update({call.object.partition(".")[0] for call in roots})
        known.part.update(took)
        return known


class Flow:
    """What the windows of one rank say up to one of them; modules are seen in iterations that are recorded in detail.

    It stays as it is: the next window has another one, which shares what is the same.

    Attributes:
        roots: Modules that the program calls itself, and no ``forward`` that it called in place of a model.
        seen: Whether the modules of the last window were seen.
    """

    __slots__ = ("_known", "_root", "roots", "seen")

    def __init__(self) -> None:
        self._known = _Known()
        self._root: dict[str, int] = {}  # by root: its last forward pass that trains
        self.roots: frozenset[str] = frozenset()
        self.seen = False

    @property
    def called(self) -> dict[str, int]:
        """By module, the number of its last call within a training forward pass that records gradients."""
        return self._known.called

    @property
    def fed(self) -> set[str]:
        """Of these, modules whose first input needed no gradient when they were called last."""
        return self._known.fed

    @property
    def inner(self) -> set[str]:
        """Modules that other modules are parts of."""
        return self._known.inner

    @property
    def habit(self) -> int:
        """How often other modules took part than the time before, or others were fed."""
        return self._known.habit

    def after(self, window: Window) -> Flow:
        """The same with one window more."""
        flow = Flow.__new__(Flow)
        modules = window.named("module")
        roots = [call for call in window.named("forward") if _trains(call)]
        flow.seen = bool(modules)
        flow._known = self._known.after(roots, modules, window) if modules else self._known
        flow._root, flow.roots = self._root, self.roots
        if roots:
            flow._root = {**self._root, **{call.object.partition(".")[0]: call.q for call in roots}}
            itself = [call.object for call in roots if not (call.args or {}).get("in_forward")]
            if not self.roots.issuperset(itself):
                flow.roots = self.roots.union(itself)
        return flow

    def between(self, module: str, since: int, until: int) -> bool:
        """Whether a module took part between two calls, or its root did, in which it took part whenever it was seen."""
        if self.seen:
            return since < self.called.get(module, -1) < until
        root = module.partition(".")[0]
        always = 0 < self._known.passes.get(root, 0) == self._known.part.get(module, 0)
        return always and since < self._root.get(root, -1) < until

    def rested(self, root: str, since: int) -> bool:
        """Whether a root that the program called itself was not called since a call: its gradients are left from before."""
        return root in self._root and self._root[root] < since

    def source(self, module: str) -> bool:
        """Whether a module without parts took in something that needs no gradient."""
        return module in self.fed and module not in self.inner


def flow_of(window: Window) -> Flow:
    """What the windows of a rank up to this one say; they must be asked for in order, and may be so again."""
    if window.flow is None:
        before: Flow = window.run.flow or Flow()
        window.flow = window.run.flow = before.after(window)
    found: Flow = window.flow
    return found


def _latest(calls: list[Call], before: Mapping[str, int]) -> dict[str, int]:
    """By module, the number of its last call, which may be one of those before."""
    found: dict[str, int] = {}
    for call in calls:
        found[call.object] = max(call.q, found.get(call.object, before.get(call.object, -1)))
    return found


def _trains(call: Call) -> bool:
    """Whether a forward pass records gradients in training mode."""
    return call.context.startswith("grad") and bool((call.args or {}).get("training", True))


def _outer(name: str) -> Iterator[str]:
    """The modules that one is a part of."""
    while name := name.rpartition(".")[0]:
        yield name
