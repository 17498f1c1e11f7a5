"""Tells the phases of a run apart: construction, forward, backward, optimizer, evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual import private, private_guard
from preflight.dryrun.virtual.device import Device
from preflight.dryrun.virtual.engine.gpu import Fake
from preflight.dryrun.virtual.engine.wrappers import local
from preflight.dryrun.virtual.memory import ledger as words
from preflight.dryrun.virtual.progress import Progress


def install(gpu: Device) -> list[Any]:
    """Watch modules, backward passes and optimizers; return the optimizers that were seen, a list that grows."""
    progress, seen = gpu.progress, _Seen(gpu)
    modules.register_module_forward_pre_hook(lambda module, inputs: seen.enter(module))
    modules.register_module_forward_hook(lambda module, inputs, output: progress.leave_module(module), always_call=True)
    optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: seen.before_step(optimizer))
    optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: seen.after_step(optimizer))
    _watch_backward(progress)
    # Fused and multi-tensor kernels are chosen by exact type; on a GPU these tensors would be plain ones.
    from torch.utils import _foreach_utils

    for holder in (optimizers, _foreach_utils):
        types = getattr(holder, "_foreach_supported_types", None)
        if types is not None and Fake not in types:
            types.append(Fake)
    _foreach_utils._has_foreach_support = lambda tensors, device: True
    for user in (torch.nn.utils.clip_grad,):
        if hasattr(user, "_has_foreach_support"):
            user._has_foreach_support = lambda tensors, device: True
    return seen.optimizers


class _Seen:
    """Optimizers and top modules, and what their storages are for."""

    def __init__(self, gpu: Device) -> None:
        self.gpu = gpu
        self.optimizers: list[Optimizer] = []
        self.tops: set[int] = set()

    def enter(self, module: Any) -> None:
        progress = self.gpu.progress
        if not progress.modules and id(module) not in self.tops:
            self.tops.add(id(module))
            for name, parameter in module.named_parameters():
                self.say(parameter, words.PARAMETER, name)
            for name, buffer in module.named_buffers():
                self.say(buffer, words.BUFFER, name)
        graph = torch.is_grad_enabled()
        progress.enter_module(module, graph)
        if progress.phase in ("forward", "eval") and len(progress.modules) == 1:
            progress.phase = "forward" if graph else "eval"

    def say(self, tensor: Any, category: str, name: str | None = None) -> None:
        tensor = local(tensor)
        if isinstance(tensor, Fake) and private.has_storage(tensor):
            self.gpu.ledger.classify(tensor.untyped_storage(), category, name)

    def before_step(self, optimizer: Any) -> None:
        self.gpu.progress.phase = "optimizer"
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.say(parameter, words.PARAMETER)
                if parameter.grad is not None:
                    self.say(parameter.grad, words.GRADIENT)
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)

    def after_step(self, optimizer: Any) -> None:
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self.say(value, words.STATE)
        self.gpu.progress.end_step(optimizer)


def _watch_backward(progress: Progress) -> None:
    run = torch.autograd._engine_run_backward

    def watched(*args: Any, **kwargs: Any) -> Any:
        before, progress.script_line = progress.phase, progress.line()
        progress.phase = "backward"
        private_guard.begin_backward()
        try:
            return run(*args, **kwargs)
        except SystemError:
            raised = private_guard.raised_below()
            if raised is None:
                raise
            raise raised from None
        finally:
            progress.phase = "forward" if before == "init" else before
            progress.backwards += 1
            progress.pending = True

    torch.autograd._engine_run_backward = watched
    torch.autograd.graph._engine_run_backward = watched
