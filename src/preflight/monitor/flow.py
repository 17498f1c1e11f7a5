"""Which modules took part in forward passes that train, in which order, and which of them take in data."""

from __future__ import annotations

from preflight.monitor.window import Window


class Flow:
    """Follows the windows of one rank; modules are seen in iterations that are recorded in detail.

    Attributes:
        called: By module, the number of its last call within a training forward pass that records gradients.
        fed: Of these, modules whose first input needed no gradient when they were called last.
        inner: Modules that other modules are parts of.
        roots: Modules that the program calls itself.
        seen: Whether the modules of the last window were seen.
    """

    def __init__(self) -> None:
        self.called: dict[str, int] = {}
        self.fed: set[str] = set()
        self.inner: set[str] = set()
        self.roots: set[str] = set()
        self.seen = False
        self._passes: dict[
            str, int
        ] = {}  # by root: windows with a forward pass that trains in which its modules were seen
        self._part: dict[str, int] = {}  # by module: in how many of these it took part
        self._root: dict[str, int] = {}  # by root: the number of its last forward pass that trains
        self.last: Window | None = None

    def look(self, window: Window) -> bool:
        """Take in a window; say whether its modules were seen."""
        self.last = window
        modules = window.named("module")
        roots = []
        for call in window.named("forward"):
            if call.context.startswith("grad") and (call.args or {}).get("training", True):
                roots.append(call)
                self.roots.add(call.object)
                self._root[call.object.partition(".")[0]] = call.q
        self.seen = bool(modules)
        if not self.seen:
            return False
        inputs = {seen.call: seen.requires_grad for seen in window.tensors if seen.position == "in0"}
        took: set[str] = set()
        inside = {call.q for root in roots for call in modules if root.q < call.q < root.e}
        for call in (*roots, *modules):
            if call.name == "module" and call.q not in inside:
                continue
            name = call.object
            took.add(name)
            last = self.called.get(name)
            self.called[name] = call.q if last is None else max(call.q, last)
            if last is None:
                self._parts_of(name)
            if inputs.get(call.q) is False:
                self.fed.add(name)
            else:
                self.fed.discard(name)
        for root in {call.object.split(".")[0] for call in roots}:
            self._passes[root] = self._passes.get(root, 0) + 1
        for name in took:
            self._part[name] = self._part.get(name, 0) + 1
        return True

    def _parts_of(self, name: str) -> None:
        """A module is seen for the first time: what it is a part of has parts."""
        outer = name.rpartition(".")[0]
        while outer and outer not in self.inner:
            self.inner.add(outer)
            outer = outer.rpartition(".")[0]

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
    flow: Flow | None = window.run.flow
    if flow is not None and flow.last is window:
        return flow
    if flow is None or window.flow is flow:  # the first window, of a run that is looked at for the first time or again
        flow = window.run.flow = Flow()
    window.flow = flow
    flow.look(window)
    return flow
