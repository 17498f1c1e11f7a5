"""Watches what turns gradients into updates: backward passes, clipping, loss scaling, optimizers, schedulers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual.watch import schedules
from preflight.dryrun.virtual.watch.gradients import Gradients
from preflight.dryrun.virtual.watch.operators import Operators, path_of, places_of
from preflight.dryrun.virtual.watch.origins import Origins


def install(operators: Operators) -> Updates:
    """Watch from now on; what is returned knows the optimizers."""
    updates = Updates(operators)
    operators.tell("zero_ fill_ _foreach_zero_", updates.flow.zeroed)
    _watch_optimizers(updates)
    _watch_backward(updates)
    _watch_clipping(updates)
    _watch_scaler(updates)
    schedules.watch(updates)
    schedules.watch_averages(updates)
    return updates


class Made:
    """An optimizer, and where it was made; it is not kept alive."""

    def __init__(self, optimizer: Any, line: str) -> None:
        self.optimizer, self.line, self.steps = weakref.ref(optimizer), line, 0
        self.kind, self.parameters = type(optimizer).__name__, sum(1 for _ in held(optimizer))
        self.groups = len(optimizer.param_groups)
        plain = (bool, int, float, type(None))
        self.defaults = {key: value for key, value in optimizer.defaults.items() if isinstance(value, plain)}

    def summary(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "kind": self.kind, "line": self.line, "parameters": self.parameters, "groups": self.groups,
            "steps": self.steps, "defaults": self.defaults,
        }  # fmt: skip


class Updates:
    """The optimizers of the run, and the state of their gradients.

    Attributes:
        made: The optimizers that were made: what each is, and the line.
        graded: Identity of a parameter to the number of backward passes that gave it a gradient.
    """

    def __init__(self, operators: Operators) -> None:
        self.seen = seen = operators.seen
        self.made: list[Made] = []
        self.graded: dict[int, int] = {}
        self.flow = Gradients(seen)
        self.origins = Origins(operators, self.made)
        self.through_scaler = False
        self._waiting: dict[int, dict[str, Any]] = {}
        self._modules: list[weakref.ref[Any]] = []
        self._depth = 0

    def number(self, optimizer: Any) -> int:
        """Return which optimizer this is; -1 for one that was not seen being made."""
        inner = getattr(optimizer, "optimizer", None)  # Accelerate wraps it
        optimizer = inner if isinstance(inner, Optimizer) else optimizer
        return next((at for at, known in enumerate(self.made) if known.optimizer() is optimizer), -1)

    def alive(self) -> Iterator[tuple[int, Any]]:
        """Yield the optimizers that still exist, with their numbers."""
        for at, known in enumerate(self.made):
            optimizer = known.optimizer()
            if optimizer is not None:
                yield at, optimizer

    def watch(self, module: Any) -> None:
        """Watch the gradients of a module's parameters, too."""
        self._modules.append(weakref.ref(module))

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters that are watched: of the optimizers and of the modules.

        They are looked up each time: a parameter that something refers to weakly cannot be moved to the GPU.
        """
        known: set[int] = set()
        modules = [module for module in (reference() for reference in self._modules) if module is not None]
        for holder in (*(held(optimizer) for _, optimizer in self.alive()), *(m.parameters() for m in modules)):
            for parameter in holder:
                if id(parameter) not in known:
                    known.add(id(parameter))
                    yield parameter

    def before_backward(self, line: str, loss: Any, kept: bool) -> dict[int, tuple[int, int] | None]:
        """A backward pass begins."""
        self.flow.begin(self.parameters())
        function = getattr(loss, "grad_fn", None)
        self.seen.note(
            "backward", each=True, line=line, retain=kept, elements=_count(loss), loss=type(function).__name__,
            dtype=str(getattr(loss, "dtype", "")), path=list(path_of(loss)), places=list(places_of(loss)),
        )  # fmt: skip
        return {id(parameter): _stamp(parameter) for parameter in self.parameters()}

    def after_backward(self, line: str, before: dict[int, tuple[int, int] | None]) -> None:
        """A backward pass has ended: note which parameters it reached."""
        reached = []
        for parameter in self.parameters():
            stamp = _stamp(parameter)
            if stamp is not None and stamp != before.get(id(parameter)):
                self.graded[id(parameter)] = self.graded.get(id(parameter), 0) + 1
                reached.append(parameter)
        told: dict[str, Any] = {"reached": len(reached), "of": len(before), "scaled": self.flow.scaling}
        told["optimizers"] = self.flow.end(line, reached, self.owners())
        self.seen.note("gradients", each=True, line=line, **told)

    def before_step(self, optimizer: Any, closure: bool = False) -> None:
        """An optimizer's step begins."""
        parameters = list(held(optimizer))
        with_gradient = sum(p.grad is not None for p in parameters)
        number = self.number(optimizer)
        rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
        self.seen.note(
            "optimizer step", each=True, optimizer=number, parameters=len(parameters), with_gradient=with_gradient,
            rates=rates,
        )  # fmt: skip
        told: dict[str, Any] = {"optimizer": number, "closure": closure}
        told |= {"inside": self.flow.running, "scaler": self.through_scaler}
        if closure:  # it computes the gradients inside of the step
            self._waiting[number] = told
        else:
            self.seen.note("update", each=True, **told, **self.flow.told(number, parameters))

    def after_step(self, optimizer: Any) -> None:
        """An optimizer's step has ended."""
        number, parameters = self.number(optimizer), list(held(optimizer))
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self.seen.note("update", each=True, **waiting, **self.flow.told(number, parameters))
        if number >= 0:
            self.made[number].steps += 1
            self.flow.stepped(number, parameters)

    def owners(self) -> dict[int, list[int]]:
        """Return which optimizers hold a parameter, by its identity."""
        found: dict[int, list[int]] = {}
        for at, optimizer in self.alive():
            for parameter in held(optimizer):
                found.setdefault(id(parameter), []).append(at)
        return found

    def call(self, what: str, run: Any, *args: Any, told: dict[str, Any], **kwargs: Any) -> Any:
        """Note a call of the script's own and run it; what it calls in turn is not noted."""
        if not self._depth:
            self.seen.note(what, each=True, **told)
        self._depth += 1
        try:
            return run(*args, **kwargs)
        finally:
            self._depth -= 1


def held(optimizer: Any) -> Iterator[Any]:
    """Yield the parameters of an optimizer."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _stamp(parameter: Any) -> tuple[int, int] | None:
    """Return what changes whenever a gradient is made, added to, or cleared."""
    gradient = parameter.grad
    return None if gradient is None else (id(gradient), gradient._version)


def _count(tensor: Any) -> int:
    return int(tensor.numel()) if isinstance(tensor, torch.Tensor) else 0


def _watch_optimizers(updates: Updates) -> None:
    make = Optimizer.__init__

    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        make(optimizer, *args, **kwargs)
        if updates.number(optimizer) < 0:
            updates.made.append(Made(optimizer, updates.seen.progress.line()))

    Optimizer.__init__ = made
    optimizers.register_optimizer_step_pre_hook(
        lambda optimizer, args, kwargs: updates.before_step(
            optimizer, any(map(callable, (*args[1:], *kwargs.values())))
        )
    )
    optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: updates.after_step(optimizer))
    clear = Optimizer.zero_grad

    def cleared(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        number, updates.flow.cleared = updates.number(optimizer), updates.seen.progress.line()
        updates.call("zero_grad", clear, optimizer, *args, told={"optimizer": number}, **kwargs)

    Optimizer.zero_grad = cleared
    clear_all = torch.nn.Module.zero_grad

    def cleared_all(module: Any, *args: Any, **kwargs: Any) -> None:
        updates.flow.cleared = updates.seen.progress.line()
        clear_all(module, *args, **kwargs)

    torch.nn.Module.zero_grad = cleared_all


def _watch_backward(updates: Updates) -> None:
    run = torch.autograd._engine_run_backward

    def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        accumulates = kwargs.get("accumulate_grad", False)
        if not accumulates:  # torch.autograd.grad leaves the gradients of parameters alone
            updates.seen.note("autograd.grad", each=True)
            return run(tensors, *args, **kwargs)
        line, kept = updates.seen.progress.line(), bool(args[1]) if len(args) > 1 else False
        before = updates.before_backward(line, tensors[0] if tensors else None, kept)
        result = run(tensors, *args, **kwargs)
        updates.after_backward(line, before)
        return result

    torch.autograd._engine_run_backward = watched
    torch.autograd.graph._engine_run_backward = watched


def _watch_clipping(updates: Updates) -> None:
    from torch.nn.utils import clip_grad

    def watch(name: str) -> None:
        clip = getattr(clip_grad, name)

        def clipped(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            owners = updates.owners()
            limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            told = {
                "function": name,
                "limit": float(limit) if isinstance(limit, (int, float)) else None,
                "parameters": len(given),
                "with_gradient": sum(p.grad is not None for p in given),
                "of_optimizers": sum(id(p) in owners for p in given),
                **updates.flow.clipped(given, owners),
            }
            return updates.call("clip", clip, given, *args, told=told, **kwargs)

        setattr(clip_grad, name, clipped)
        setattr(torch.nn.utils, name, clipped)

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        watch(name)


def _watch_scaler(updates: Updates) -> None:
    from torch.amp import GradScaler

    def watch(name: str) -> None:
        method = getattr(GradScaler, name)

        def called(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            if not scaler.is_enabled():
                return method(scaler, *args, **kwargs)
            told: dict[str, Any] = {}
            if name in ("unscale_", "step") and args:
                told["optimizer"] = updates.number(args[0])
            if name == "step":  # the optimizer's own step inside is noted, too
                updates.seen.note("scaler step", each=True, **told)
                updates.through_scaler = True
                try:
                    return method(scaler, *args, **kwargs)
                finally:
                    updates.through_scaler = False
            if name == "scale":
                updates.flow.scaling = True
            elif name == "unscale_" and args:
                updates.flow.unscaled(held(args[0]))
            return updates.call(f"scaler {name.rstrip('_')}", method, scaler, *args, told=told, **kwargs)

        setattr(GradScaler, name, called)

    for name in ("scale", "unscale_", "step", "update"):
        watch(name)
