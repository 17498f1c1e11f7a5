"""Which modules took part in forward passes that train, in which order, and which of them take in data."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator

from preflight.monitor.window import Call, Window


class Flow:
    """What the windows of one rank say up to one of them; modules are seen in iterations that are recorded in detail.

    It stays as it is: the next window has another one, which shares what is the same.

    Attributes:
        called: By module, the number of its last call within a training forward pass that records gradients.
        fed: Of these, modules whose first input needed no gradient when they were called last.
        inner: Modules that other modules are parts of.
        roots: Modules that the program calls itself.
        seen: Whether the modules of the last window were seen.
        habit: How often other modules took part than the time before, or others were fed.
    """

    __slots__ = ("_part", "_passes", "_root", "_took", "called", "fed", "habit", "inner", "roots", "seen")

    def __init__(self, before: Flow | None = None) -> None:
        self.called: dict[str, int] = before.called if before else {}
        self.fed: set[str] = before.fed if before else set()
        self.inner: set[str] = before.inner if before else set()
        self.roots: set[str] = before.roots if before else set()
        self.seen = False
        self.habit: int = before.habit if before else 0
        self._took: set[str] = before._took if before else set()
        # By root: windows with a forward pass that trains in which its modules were seen.
        self._passes: Counter[str] = before._passes if before else Counter()
        self._part: Counter[str] = before._part if before else Counter()  # by module: in how many of them it took part
        self._root: dict[str, int] = before._root if before else {}  # by root: its last forward pass that trains

    def after(self, window: Window) -> Flow:
        """The same with one window more."""
        flow = Flow(self)
        modules = window.named("module")
        roots = [call for call in window.named("forward") if _trains(call)]
        if roots:
            flow._root = {**self._root, **{call.object.partition(".")[0]: call.q for call in roots}}
            names = {call.object for call in roots}
            if not names <= self.roots:
                flow.roots = self.roots | names
        flow.seen = bool(modules)
        if flow.seen:
            flow._look(roots, modules, window)
        return flow

    def _look(self, roots: list[Call], modules: list[Call], window: Window) -> None:
        """Take in the modules within forward passes that train."""
        numbers = [call.q for call in modules]
        within = [modules[bisect_right(numbers, one.q) : bisect_left(numbers, one.e)] for one in roots]
        inside = within[0] if len(within) == 1 else sorted({call.q: call for one in within for call in one}.values())
        calls = [*roots, *inside]
        took = {call.object for call in calls}
        if not took <= self.called.keys():
            self.inner = self.inner.union(*(_outer(name) for name in took - self.called.keys()))
        self.called = {**self.called}
        for call in calls:
            if call.q > self.called.get(call.object, -1):
                self.called[call.object] = call.q
        inputs = {seen.call: seen.requires_grad for seen in window.tensors if seen.position == "in0"}
        last = {call.object: inputs.get(call.q) for call in calls}
        fed = (self.fed - took).union(name for name, needs in last.items() if needs is False)
        self.habit += took != self._took or fed != self.fed
        self._took, self.fed = took, fed
        self._passes = Counter(self._passes)
        self._passes.update({call.object.partition(".")[0] for call in roots})
        self._part = Counter(self._part)
        self._part.update(took)

    def between(self, module: str, since: int, until: int) -> bool:
        """Whether a module took part between two calls, or its root did, in which it took part whenever it was seen."""
        if self.seen:
            return since < self.called.get(module, -1) < until
        root = module.partition(".")[0]
        always = 0 < self._passes.get(root, 0) == self._part.get(module, 0)
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


def _trains(call: Call) -> bool:
    """Whether a forward pass records gradients in training mode."""
    return call.context.startswith("grad") and bool((call.args or {}).get("training", True))


def _outer(name: str) -> Iterator[str]:
    """The modules that one is a part of."""
    while name := name.rpartition(".")[0]:
        yield name
