"""Watches what turns gradients into updates: backward passes, clipping, loss scaling, optimizers, schedulers.

Whether gradients were cleared is not read off a call of ``zero_grad`` but off the gradients themselves: one that is the
same tensor in the same version after a step and before the next backward pass was not.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual.watch.observations import Observations


def install(seen: Observations) -> Updates:
    """Watch from now on; what is returned knows the optimizers."""
    updates = Updates(seen)
    _watch_optimizers(updates)
    _watch_backward(updates)
    _watch_clipping(updates)
    _watch_scaler(updates)
    _watch_schedulers(updates)
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

    def __init__(self, seen: Observations) -> None:
        self.seen = seen
        self.made: list[Made] = []
        self.graded: dict[int, int] = {}
        self.watched: dict[int, weakref.ref[Any]] = {}
        self._stepped: dict[int, tuple[int, int]] = {}
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

    def watch(self, parameters: Any) -> None:
        """Watch the gradients of parameters."""
        for parameter in parameters:
            known = self.watched.get(id(parameter))
            if known is None or known() is not parameter:
                self.watched[id(parameter)] = weakref.ref(parameter)
                self.graded.pop(id(parameter), None)

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters that are watched."""
        for reference in self.watched.values():
            parameter = reference()
            if parameter is not None:
                yield parameter

    def before_backward(self, line: str, loss: Any, kept: bool) -> dict[int, tuple[int, int] | None]:
        """A backward pass begins: note what gradients of the last step are still there."""
        for at, optimizer in self.alive():
            stale = total = 0
            for parameter in held(optimizer):
                total += 1
                stamp = _stamp(parameter)
                stale += stamp is not None and self._stepped.get(id(parameter)) == stamp
            if stale:
                self.seen.note("gradients kept over a step", each=True, line=line, optimizer=at, stale=stale, of=total)
        function = getattr(loss, "grad_fn", None)
        self.seen.note(
            "backward", each=True, line=line, retain=kept, elements=_count(loss), loss=type(function).__name__,
            dtype=str(getattr(loss, "dtype", "")),
        )  # fmt: skip
        return {id(parameter): _stamp(parameter) for parameter in self.parameters()}

    def after_backward(self, line: str, before: dict[int, tuple[int, int] | None]) -> None:
        """A backward pass has ended: note which parameters it reached."""
        reached = 0
        for parameter in self.parameters():
            stamp = _stamp(parameter)
            if stamp is not None and stamp != before.get(id(parameter)):
                self.graded[id(parameter)] = self.graded.get(id(parameter), 0) + 1
                reached += 1
        self.seen.note("gradients", each=True, line=line, reached=reached, of=len(before))

    def before_step(self, optimizer: Any) -> None:
        """An optimizer's step begins."""
        parameters = list(held(optimizer))
        with_gradient = sum(p.grad is not None for p in parameters)
        self.watch(parameters)
        rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
        self.seen.note(
            "optimizer step", each=True, optimizer=self.number(optimizer), parameters=len(parameters),
            with_gradient=with_gradient, rates=rates,
        )  # fmt: skip

    def after_step(self, optimizer: Any) -> None:
        """An optimizer's step has ended."""
        number = self.number(optimizer)
        if number >= 0:
            self.made[number].steps += 1
        for parameter in held(optimizer):
            stamp = _stamp(parameter)
            if stamp is not None:
                self._stepped[id(parameter)] = stamp

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
            updates.watch(held(optimizer))

    Optimizer.__init__ = made
    optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: updates.before_step(optimizer))
    optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: updates.after_step(optimizer))
    clear = Optimizer.zero_grad

    def cleared(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        number = updates.number(optimizer)
        updates.call("zero_grad", clear, optimizer, *args, told={"optimizer": number}, **kwargs)

    Optimizer.zero_grad = cleared


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
            owned = {id(p) for _, optimizer in updates.alive() for p in held(optimizer)}
            limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            told = {
                "function": name,
                "limit": float(limit) if isinstance(limit, (int, float)) else None,
                "parameters": len(given),
                "with_gradient": sum(p.grad is not None for p in given),
                "of_optimizers": sum(id(p) in owned for p in given),
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
                return method(scaler, *args, **kwargs)
            return updates.call(f"scaler {name.rstrip('_')}", method, scaler, *args, told=told, **kwargs)

        setattr(GradScaler, name, called)

    for name in ("scale", "unscale_", "step", "update"):
        watch(name)


def _watch_schedulers(updates: Updates) -> None:
    made: weakref.WeakSet[Any] = weakref.WeakSet()
    making = [0]

    def watch_step(kind: Any) -> None:
        step = kind.step

        def stepped(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            if scheduler not in made:  # schedulers step themselves while they are made; only the script's steps count
                return step(scheduler, *args, **kwargs)
            told = {"scheduler": type(scheduler).__name__, "optimizer": updates.number(scheduler.optimizer)}
            return updates.call("scheduler step", step, scheduler, *args, told=told, **kwargs)

        kind.step = stepped

    def watch_making(kind: Any) -> None:
        make = kind.__init__

        def begun(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            making[0] += 1
            try:
                make(scheduler, *args, **kwargs)
            finally:
                making[0] -= 1
            if not making[0] and scheduler not in made:
                made.add(scheduler)
                kind_of, number = type(scheduler).__name__, updates.number(scheduler.optimizer)
                updates.seen.note("scheduler made", each=True, scheduler=kind_of, optimizer=number)

        kind.__init__ = begun

    base = lr_scheduler.LRScheduler
    kinds = [base, *(k for k in vars(lr_scheduler).values() if isinstance(k, type) and issubclass(k, base))]
    for kind in dict.fromkeys(kinds):
        if "step" in vars(kind):
            watch_step(kind)
        if "__init__" in vars(kind):
            watch_making(kind)
