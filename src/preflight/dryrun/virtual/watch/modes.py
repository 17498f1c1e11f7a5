"""Watches train and eval mode: who sets it, in which one networks are called, and dropout that does not heed it."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as modules

from preflight.dryrun.virtual.watch.operators import Operators
from preflight.dryrun.virtual.watch.updates import Updates, held

_NORMS = (torch.nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_KEPT = 500
# Where an attention kernel has its rate of dropout.
_RATE = {"_scaled_dot_product_flash_attention": 3, "_scaled_dot_product_efficient_attention": 5}


def install(operators: Operators, updates: Updates) -> Modes:
    """Watch from now on."""
    modes = Modes(operators, updates)
    modules.register_module_forward_pre_hook(modes.enter)
    modules.register_module_forward_hook(modes.leave, always_call=True)
    operators.tell("native_dropout " + " ".join(_RATE), modes.dropped)
    _watch_switch(modes)
    return modes


class Network:
    """A module that the script calls itself: its layers that depend on the mode, and when it was put into which mode."""

    def __init__(self, module: Any, number: int) -> None:
        self.module, self.number, self.kind = weakref.ref(module), number, type(module).__name__
        parts = list(module.modules())
        self.ids = {id(part) for part in parts}
        self.modal = [
            weakref.ref(part)
            for part in parts
            if (isinstance(part, _NORMS) and part.running_mean is not None)
            or (isinstance(part, _DROPOUTS) and part.p > 0)
        ]
        self.parameters = {id(p) for p in module.parameters()}
        self.trained_awake = self.eval_line = ""
        self.trained_at = self.eval_at = self.train_at = 0

    def switch(self, module: Any, mode: bool, serial: int, line: str) -> None:
        """A mode was set; it concerns this network if the module is a part of it, or it a part of the module."""
        if id(module) not in self.ids:
            top = self.module()
            if top is None or not any(part is top for part in module.modules()):
                return
        if mode:
            self.train_at = serial
        else:
            self.eval_at, self.eval_line = serial, line

    def awake(self) -> tuple[int, int]:
        """Return the number of its dropout and of its batch norm layers that are in train mode."""
        parts = [part for part in (reference() for reference in self.modal) if part is not None and part.training]
        norms = sum(isinstance(part, _NORMS) for part in parts)
        return len(parts) - norms, norms


class Modes:
    """The modes of the run.

    Args:
        operators: Tells of operators.
        updates: Knows the optimizers.
    """

    def __init__(self, operators: Operators, updates: Updates) -> None:
        self.seen, self.updates = operators.seen, updates
        self._networks: dict[int, Network] = {}
        self._switches: list[tuple[weakref.ref[Any], bool, int, str]] = []
        self._running: list[Any] = []

    def enter(self, module: Any, args: Any) -> None:
        """A module's forward begins."""
        self._running.append(module)
        if len(self._running) > 1:
            return
        network = self._networks.get(id(module))
        if network is None or network.module() is not module:
            network = self._networks[id(module)] = Network(module, len(self._networks))
            for reference, mode, serial, line in self._switches:
                switched = reference()
                if switched is not None:
                    network.switch(switched, mode, serial, line)
        if not network.modal or _recomputed():
            return
        dropouts, norms = network.awake()
        graph = torch.is_grad_enabled()
        line = self.seen.progress.line()
        optimized = any(id(p) in network.parameters for _, o in self.updates.alive() for p in held(o))
        self.seen.note(
            "network called", line=line, number=network.number, kind=network.kind, training=module.training, graph=graph,
            dropouts=dropouts, norms=norms, modal=len(network.modal), optimized=optimized,
        )  # fmt: skip
        if graph and optimized and dropouts + norms and module.training:
            network.trained_awake, network.trained_at = line, self.seen.serial

    def leave(self, module: Any, args: Any, output: Any) -> None:
        """A module's forward ends."""
        if self._running:
            self._running.pop()

    def dropped(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Dropout has run."""
        at = _RATE.get(name)
        rate = args[1] if at is None else args[at] if len(args) > at else 0.0
        on = bool(args[2]) if at is None else True
        if on and rate and self._running and not any(module.training for module in self._running):
            owner = self._running[-1]
            self.seen.note("dropout in eval mode", rate=float(rate), kind=type(owner).__name__, operator=name)

    def switched(self, module: Any, mode: bool) -> None:
        """Train or eval mode was set."""
        line = self.seen.progress.line()
        self.seen.note("mode", each=True, line=line, training=mode, kind=type(module).__name__)
        del self._switches[:-_KEPT]
        self._switches.append((weakref.ref(module), mode, self.seen.serial, line))
        for network in self._networks.values():
            network.switch(module, mode, self.seen.serial, line)

    def loop_ended(self, begun: int) -> None:
        """A training loop is not gone on with; what its next round would find is told by what this one left behind.

        Args:
            begun: Number of the last observation before the loop began.
        """
        for network in self._networks.values():
            left = network.trained_at > begun and network.eval_at > network.trained_at and network.train_at <= begun
            if left and network.module() is not None and not any(network.awake()):
                self.seen.note(
                    "left in eval mode", each=True, line=network.eval_line, kind=network.kind, number=network.number,
                    modal=len(network.modal), trained=network.trained_awake,
                )  # fmt: skip


def _recomputed() -> bool:
    """Whether gradient checkpointing calls, which runs the first pass without gradients."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith("checkpoint.py"):
            return True
        frame = frame.f_back
    return False


def _watch_switch(modes: Modes) -> None:
    switch = torch.nn.Module.train
    depth = [0]

    def switched(module: Any, mode: bool = True) -> Any:
        depth[0] += 1
        try:
            return switch(module, mode)
        finally:
            depth[0] -= 1
            if not depth[0]:
                modes.switched(module, mode)

    torch.nn.Module.train = switched  # type: ignore[method-assign, assignment, unused-ignore]
