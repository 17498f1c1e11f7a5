"""Watches modules: which are called, in which mode, on what, and which of their parameters get gradients."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual.engine.wrappers import local
from preflight.dryrun.virtual.watch.belonging import Belonging
from preflight.dryrun.virtual.watch.observations import Observations
from preflight.dryrun.virtual.watch.updates import Updates, held

_NORMS = (torch.nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_LARGEST = 4_000
"""So many modules and parameters are listed; what comes behind them is of the same kinds."""


def install(seen: Observations, updates: Updates) -> Modules:
    """Watch from now on."""
    watched = Modules(seen, updates)
    watched.belonging.install()
    modules.register_module_forward_pre_hook(watched.enter)
    modules.register_module_forward_hook(watched.leave, always_call=True)
    optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: watched.look())
    return watched


class Calls:
    """How often a module was called: where a graph was recorded, and where none was."""

    __slots__ = ("gradient", "graph", "keeper", "kind", "line", "module", "owns", "plain", "training")

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.graph = self.plain = self.training = 0
        self.gradient = False
        self.keeper = self.line = ""
        self.kind, self.owns = type(module).__name__, any(True for _ in module.parameters(recurse=False))

    def counts(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "calls": self.graph + self.plain, "graph_calls": self.graph, "training_calls": self.training,
            "gradient": self.gradient,
        }  # fmt: skip


class Modules:
    """The modules of the run.

    Attributes:
        tops: Modules that the script calls itself, in order.
    """

    def __init__(self, seen: Observations, updates: Updates) -> None:
        self.seen, self.updates = seen, updates
        self.belonging = Belonging(seen)
        self.calls: dict[int, Calls] = {}
        self.tops: list[weakref.ref[Any]] = []
        self._numbers: dict[int, int] = {}
        self._table: dict[int, dict[str, Any]] = {}
        self._parameters: dict[int, dict[str, Any]] = {}
        self._depth = 0

    def enter(self, module: Any, args: Any) -> None:
        """A module's forward begins."""
        graph = torch.is_grad_enabled()
        if not self._depth and all(known() is not module for known in self.tops):
            self.tops.append(weakref.ref(module))
            self.updates.watch(module)
        if not self._depth and any(True for _ in module.parameters()):
            self.seen.note("call", each=True, kind=type(module).__name__, training=module.training, graph=graph)
        if not self._depth:
            self.belonging.begin()
        self._depth += 1
        calls = self.calls.get(id(module))
        new = calls is None or calls.module() is not module
        if calls is None or new:
            calls = self.calls[id(module)] = Calls(module)
        calls.keeper = self.belonging.enter(module, new) or calls.keeper
        calls.line = calls.line or self.belonging.line_of(module)
        if graph:
            calls.graph += 1
            calls.training += module.training
        else:
            calls.plain += 1
        if isinstance(module, _NORMS):
            self._note_norm(module, args, graph)
        elif isinstance(module, _DROPOUTS) and module.p > 0:
            first = args[0] if args else None
            shape = list(first.shape) if isinstance(first, torch.Tensor) else []
            self.seen.note(
                "dropout", kind=type(module).__name__, training=module.training, graph=graph, rank=len(shape)
            )

    def leave(self, module: Any, args: Any, output: Any) -> None:
        """A module's forward ends."""
        self.belonging.leave()
        self._depth = max(0, self._depth - 1)
        calls = self.calls.get(id(module))
        if calls is not None and not calls.gradient:
            first = output[0] if isinstance(output, (list, tuple)) and output else output
            calls.gradient = bool(getattr(first, "requires_grad", False)) or not isinstance(first, torch.Tensor)

    def _note_norm(self, module: Any, args: Any, graph: bool) -> None:
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        frozen = module.weight is not None and not module.weight.requires_grad
        rows = int(first.numel() // max(1, first.shape[1])) if first is not None and first.dim() > 1 else 0
        batch = int(first.shape[0]) if first is not None else 0
        statistics = module.running_mean is not None
        self.seen.note(
            "batch norm", kind=type(module).__name__, training=module.training, graph=graph, frozen=frozen, rows=rows,
            batch=batch, statistics=statistics,
        )  # fmt: skip

    def networks(self) -> list[Any]:
        """Return the top modules with parameters, those left out that lie within another one; the largest first."""
        tops = [top for top in (reference() for reference in self.tops) if top is not None]
        tops = [top for top in tops if any(True for _ in top.parameters())]
        inner = {id(part) for top in tops for part in top.modules() if part is not top}
        kept = [top for top in tops if id(top) not in inner]
        return sorted(kept, key=lambda top: -sum(p.numel() for p in top.parameters()))

    def look(self) -> None:
        """Write down what is there now: at the end of the script it may be gone."""
        owners: dict[int, list[int]] = {}
        for at, optimizer in self.updates.alive():
            for parameter in held(optimizer):
                owners.setdefault(id(parameter), []).append(at)
        for top in self.networks():
            at = self._numbers.setdefault(id(top), len(self._numbers))
            for path, part in top.named_modules():
                self._table[id(part)] = self._module(at, path or type(top).__name__, part)
            for name, parameter in top.named_parameters():
                self._parameters[id(parameter)] = self._parameter(at, name, parameter, owners)
        for at, optimizer in self.updates.alive():
            for number, parameter in enumerate(held(optimizer)):
                name = f"parameter {number} of optimizer {at}"
                known = self._parameters.get(id(parameter))
                if known is None or known["network"] is None:
                    self._parameters[id(parameter)] = self._parameter(None, name, parameter, owners)

    def summary(self) -> dict[str, Any]:
        """Return the tables of modules, parameters and optimizers."""
        self.look()
        for key, calls in self.calls.items():
            row = self._table.get(key)
            if row is not None:
                row.update(calls.counts())
            elif calls.owns or calls.keeper:
                # Called, with parameters, and in no network: layers that a plain list holds.
                self._table[key] = {"network": None, "path": calls.kind, "kind": calls.kind, **calls.counts()}
                self._table[key] |= {"keeper": calls.keeper, "line": calls.line, **self._loose(calls.module())}
        return {
            "modules": list(self._table.values())[:_LARGEST],
            "parameters": list(self._parameters.values())[:_LARGEST],
            "made": [made.summary() for made in self.updates.made],
        }

    def _module(self, network: int | None, path: str, part: Any) -> dict[str, Any]:
        calls = self.calls.get(id(part)) or Calls(part)
        return {
            "network": network, "path": path, "kind": type(part).__name__, "training": part.training,
            "parameters": sum(p.numel() for p in part.parameters()), "line": self.belonging.line_of(part),
            **calls.counts(),
        }  # fmt: skip

    def _loose(self, module: Any) -> dict[str, Any]:
        """Say of a module in no network how much of it learns, and whether an optimizer or a checkpoint knows of it."""
        if module is None:
            return {}
        owners, learning = self.updates.owners(), [p for p in module.parameters() if p.requires_grad]
        return {
            "parameters": sum(p.numel() for p in module.parameters()), "learning": sum(p.numel() for p in learning),
            "optimized": any(id(p) in owners for p in learning),
            "loaded": any(self.updates.origins.of(p)["loaded"] for p in module.parameters()),
        }  # fmt: skip

    def _parameter(
        self, network: int | None, name: str, parameter: Any, owners: dict[int, list[int]]
    ) -> dict[str, Any]:
        plain = local(parameter)
        return {
            "network": network, "name": name, "shape": list(parameter.shape),
            "dtype": str(parameter.dtype).removeprefix("torch."), "trainable": bool(parameter.requires_grad),
            "bytes": plain.numel() * plain.element_size(), "optimizers": owners.get(id(parameter), []),
            "gradients": self.updates.graded.get(id(parameter), 0), **self.updates.origins.of(parameter),
        }  # fmt: skip
