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
    """

    def __init__(self) -> None:
        self.called: dict[str, int] = {}
        self.fed: set[str] = set()
        self.inner: set[str] = set()
        self.roots: set[str] = set()

    def look(self, window: Window) -> bool:
        """Take in a window; say whether its modules were seen."""
        modules = window.named("module")
        if not modules:
            return False
        roots = [
            call
            for call in window.named("forward")
            if (call.args or {}).get("training", True) and call.context.startswith("grad")
        ]
        self.roots.update(call.object for call in roots)
        inputs = {seen.call: seen.requires_grad for seen in window.tensors if seen.position == "in0"}
        for call in (*roots, *modules):
            if call.name == "module" and not any(root.q < call.q < root.e for root in roots):
                continue
            name = call.object
            self.called[name] = max(call.q, self.called.get(name, -1))
            outer = name.rpartition(".")[0]
            while outer and outer not in self.inner:
                self.inner.add(outer)
                outer = outer.rpartition(".")[0]
            if inputs.get(call.q) is False:
                self.fed.add(name)
            else:
                self.fed.discard(name)
        return True

    def source(self, module: str) -> bool:
        """Whether a module without parts took in something that needs no gradient."""
        return module in self.fed and module not in self.inner
