"""Looks at the numbers of a run: modules, losses, gradients."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.probe import breaks, drawing, losses, masks
from preflight.dryrun.virtual.progress import Progress


class Root:
    """A module that the script itself calls.

    Attributes:
        module: The module. place: ``file:line`` of its forward, or of its first call. inputs: Copies of its first arguments in
            training.
        kept: The inputs and what the targets have to do with them, for an experiment at the end. grad: Whether a graph was recorded. scales: Size of the results of its parts, in order.
    """

    def __init__(self, module: Any, place: str) -> None:
        self.module, self.place = module, place
        self.inputs: tuple[Any, Any] | None = None
        self.kept: tuple[Any, list[Any]] | None = None
        self.grad = False
        self.examined = False
        self.scales: dict[str, float] = {}
        self.names = {id(part): path for path, part in module.named_modules()}
        self.parameters = sum(p.numel() for p in module.parameters())


class Watch:
    """What was seen.

    Attributes:
        roots: Modules that the script calls, by identity.
        losses: The losses over classes. breaks: Numbers that are none any more. masks: What attention was told to leave out.
        shaken: Whether every weight has been moved a little.
        drawn: Random calls while somebody listens, (function, line) to the share that is dropped; None while nobody does.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.depth = 0
        self.muted = False
        self.shaken = False
        self.roots: dict[int, Root] = {}
        self.losses, self.breaks, self.masks = losses.Losses(self), breaks.Breaks(self), masks.Masks(progress)
        self.drawn: dict[tuple[str, str], float | None] | None = None
        self.empty: set[int] = set()
        self.optimizers: list[Any] = []

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Do something that is not the script's."""
        before, self.muted = self.muted, True
        try:
            yield
        finally:
            self.muted = before

    # What runs -----------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Watch modules, backward passes and optimizers."""
        call = torch.nn.Module.__call__
        watch = self

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            if watch.muted:
                return call(module, *args, **kwargs)
            root = watch._enter(module, args, kwargs)
            watch.depth += 1
            try:
                result = call(module, *args, **kwargs)
            finally:
                watch.depth -= 1
            watch._leave(module, root, args, result)
            return result

        torch.nn.Module.__call__ = called
        make = torch.optim.Optimizer.__init__

        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            make(optimizer, *args, **kwargs)
            watch.optimizers.append(optimizer)

        torch.optim.Optimizer.__init__ = made
        optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self.breaks.before_step(optimizer))
        self.breaks.install()

    def _enter(self, module: Any, args: Any, kwargs: Any) -> Root | None:
        if self.depth:
            if any(isinstance(a, torch.Tensor) and not a.numel() for a in args):
                self.empty.add(id(module))
            return None
        root = self.roots.get(id(module))
        if root is None:
            root = self.roots[id(module)] = Root(module, self.place_of(module))
        if not root.parameters:
            self.losses.criterion(args, kwargs)
        elif root.inputs is None and module.training and torch.is_grad_enabled():
            with torch.no_grad():
                root.inputs = private.map_tensors(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
            root.grad = True
        return root

    def _leave(self, module: Any, root: Root | None, args: Any, result: Any) -> None:
        if self.progress.step or not torch.is_grad_enabled() or not module.training:
            return
        tensor = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
            for known in self.roots.values():
                name = known.names.get(id(module), "")
                if name[-1:].isdigit() and name not in known.scales:
                    with torch.no_grad(), self.quiet():
                        size = torch.linalg.vector_norm(tensor.detach().float())
                        known.scales[name] = float(size) / math.sqrt(tensor.numel())

    def place_of(self, module: Any) -> str:
        """Return where a module's forward is written, or where it is called now if that is not the person's own code."""
        return self.own_place(module) or str(self.progress.line())

    def own_place(self, module: Any) -> str:
        """Return where a module's forward is written; empty if that is not the person's own code."""
        code = getattr(type(module).forward, "__code__", None)
        if code is not None and self.progress.owns(code.co_filename):
            return f"{os.path.relpath(code.co_filename, self.progress.root)}:{code.co_firstlineno}"
        return ""

    # Functions -----------------------------------------------------------------------------------------------------

    def called(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """A function of PyTorch has run."""
        if name in losses.FUNCTIONS and args:
            self.losses.called(name, args, kwargs, result)
        if self.drawn is not None and (name in drawing.RANDOM or name in drawing.DROPOUT):
            self._draw(name, args, kwargs)
        if not self.muted:
            self.masks.called(name, args, kwargs)
            self.breaks.called(name, result)

    def _draw(self, name: str, args: Any, kwargs: Any) -> None:
        assert self.drawn is not None
        share = None
        if name in drawing.DROPOUT:
            share = drawing.probability(name, args, kwargs)
            if not share:
                return
        self.drawn.setdefault((name, self.progress.line()), share)

    def name_of(self, parameter: Any) -> str:
        """Return a parameter's path in the module that the script calls."""
        for root in self.roots.values():
            for name, known in root.module.named_parameters():
                if known is parameter:
                    return str(name)
        return "(a tensor of the optimizer)"

    def next_step(self) -> None:
        """A step is done; what belongs to it is forgotten."""
        self.breaks.origin = self.breaks.infinite = None
        self.losses.targets.clear()
