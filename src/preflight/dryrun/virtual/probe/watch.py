"""Looks at the numbers of a run: modules, losses, gradients."""

from __future__ import annotations

import contextlib
import math
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.probe import drawing
from preflight.dryrun.virtual.progress import Progress

LARGEST = 1 << 21  # elements; larger results are not searched for NaN
_GARBAGE = ("empty", "resize", "new_empty", "set_", "isnan", "nan_to_num", "__get__", "__set__")
_REACH_INFINITY = frozenset(
    "log log2 log10 log1p div true_divide reciprocal rsqrt exp expm1 pow __rtruediv__ __truediv__".split()
)
_SEARCHED = ("forward", "backward")
_VIEWS = frozenset(
    "view reshape transpose permute expand squeeze unsqueeze contiguous detach flatten t __getitem__ to".split()
)
_LOSSES = {"cross_entropy": True, "nll_loss": False}


class Root:
    """A module that the script itself calls.

    Attributes:
        module: The module. place: ``file:line`` of its forward, or of its first call. inputs: Copies of its first arguments in
            training. grad: Whether a graph was recorded. scales: Size of the results of its parts, in order.
    """

    def __init__(self, module: Any, place: str) -> None:
        self.module, self.place = module, place
        self.inputs: tuple[Any, Any] | None = None
        self.grad = False
        self.examined = False
        self.scales: dict[str, float] = {}
        self.names = {id(part): path for path, part in module.named_modules()}
        self.parameters = sum(p.numel() for p in module.parameters())


class Watch:
    """What was seen.

    Attributes:
        roots: Modules that the script calls, by identity.
        targets: Numbers of classes or tokens that losses were given since the last step: (tensor, ignored, logits' shape).
        losses: A record of each loss of classes in the first step.
        backwards: Value, step and line of what each backward pass began with.
        origin: Where a NaN first appeared in this step.
        drawn: Random calls since ``listen`` was set; a dictionary of (function, line) to detail.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.depth = 0
        self.muted = False
        self.shaken = False
        self.roots: dict[int, Root] = {}
        self.targets: list[tuple[Any, int, tuple[int, ...]]] = []
        self.losses: list[dict[str, Any]] = []
        self.backwards: list[dict[str, Any]] = []
        self.origin: dict[str, Any] | None = None
        self.infinite: dict[str, Any] | None = None
        self.hunting = False
        self.broken: dict[str, Any] | None = None
        self.drawn: dict[tuple[str, str], float | None] | None = None
        self.logits: list[Any] | None = None
        self.empty: set[int] = set()
        self.gradients: dict[int, dict[str, Any]] = {}
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
        optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self.before_step(optimizer))
        self._watch_backward()

    def _enter(self, module: Any, args: Any, kwargs: Any) -> Root | None:
        if self.depth:
            if any(isinstance(a, torch.Tensor) and not a.numel() for a in args):
                self.empty.add(id(module))
            return None
        root = self.roots.get(id(module))
        if root is None:
            root = self.roots[id(module)] = Root(module, self.place_of(module))
        if not root.parameters:
            self._criterion(args, kwargs)
        elif root.inputs is None and module.training and torch.is_grad_enabled():
            with torch.no_grad():
                root.inputs = private.map_tensors(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
            root.grad = True
        return root

    def _criterion(self, args: Any, kwargs: Any) -> None:
        """Note whole numbers that a module without parameters is given: they are what a loss compares with."""
        tensors = [leaf for leaf in private.leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
        if any(t.is_floating_point() and t.requires_grad for t in tensors):
            shape = next(tuple(t.shape) for t in tensors if t.is_floating_point() and t.requires_grad)
            for tensor in tensors:
                if tensor.dtype in (torch.int64, torch.int32) and tensor.numel() > 1:
                    self.targets.append((tensor.detach(), -100, shape))

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
        if name in _LOSSES and args:
            self._loss(name, args, kwargs, result)
        if self.drawn is not None and (name in drawing.RANDOM or name in drawing.DROPOUT):
            self._draw(name, args, kwargs)
        if self.muted or self.origin is not None or not isinstance(result, torch.Tensor):
            return
        if self.progress.phase not in _SEARCHED or name in _VIEWS or name.startswith(_GARBAGE):
            return
        if result.is_floating_point() and 0 < result.numel() <= LARGEST:
            with torch.no_grad():
                # One pass over the numbers where nothing is wrong: a sum is finite only if every number is.
                if math.isfinite(result.detach().sum()):
                    return
                if bool(torch.isnan(result.detach()).any()):
                    self.origin = self.infinite or self._here(name)
                elif self.infinite is None and name in _REACH_INFINITY and bool(torch.isinf(result.detach()).any()):
                    self.infinite = self._here(name)

    def _here(self, function: str) -> dict[str, Any]:
        progress = self.progress
        return {
            "function": function.strip("_"),
            "module": progress.module,
            "line": progress.line(),
            "step": progress.step,
        }

    def _draw(self, name: str, args: Any, kwargs: Any) -> None:
        assert self.drawn is not None
        share = None
        if name in drawing.DROPOUT:
            share = drawing.probability(name, args, kwargs)
            if not share:
                return
        self.drawn.setdefault((name, self.progress.line()), share)

    def _loss(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        logits = args[0]
        target = kwargs.get("target", args[1] if len(args) > 1 else None)
        if not isinstance(target, torch.Tensor) or target.is_floating_point():
            return
        ignored = kwargs.get("ignore_index", -100)
        weight = kwargs.get("weight", args[2] if len(args) > 2 else None)
        if self.logits is not None:
            self.logits.append((logits.detach(), target.detach()))
        if self.muted or not torch.is_grad_enabled() or not logits.requires_grad:
            return
        self.targets.append((target.detach(), ignored, tuple(logits.shape)))
        if len(self.losses) >= 60:
            return
        with torch.no_grad(), self.quiet():
            counted = target[target != ignored]
            scalar = isinstance(result, torch.Tensor) and result.numel() == 1
            self.losses.append(
                {
                    "function": name,
                    "line": self.progress.line(),
                    "step": self.progress.step,
                    "classes": int(logits.shape[1 if logits.dim() > 1 else 0]),
                    "value": _finite(float(result)) if scalar else None,
                    "mean": kwargs.get("reduction", "mean") == "mean" and scalar,
                    "weighted": weight is not None,
                    "targets": int(target.numel()),
                    "counted": int(counted.numel()),
                    "different": int(counted.unique().numel()),
                    "lowest": int(counted.min()) if counted.numel() else None,
                    "highest": int(counted.max()) if counted.numel() else None,
                }
            )

    # Backward and optimizers ---------------------------------------------------------------------------------------

    def _watch_backward(self) -> None:
        run = torch.autograd._engine_run_backward

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            values = (
                [t for t in tensors if isinstance(t, torch.Tensor)]
                if not isinstance(tensors, torch.Tensor)
                else [tensors]
            )
            if not self.muted and len(values) == 1 and values[0].numel() == 1 and len(self.backwards) < 200:
                value = float(values[0].detach())
                record = {"value": _finite(value), "step": self.progress.step, "line": self.progress.line()}
                self.backwards.append(record)
                if not math.isfinite(value):
                    self._break("the loss", str(value))
            if self.hunting and kwargs.get("accumulate_grad"):
                return self._hunt(run, tensors, args, kwargs)
            return run(tensors, *args, **kwargs)

        torch.autograd._engine_run_backward = watched
        torch.autograd.graph._engine_run_backward = watched

    def _hunt(self, run: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        """Run a backward pass that stops at the function whose derivative is not a number, and tell where that was called."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                return run(tensors, *args, **kwargs)
            except RuntimeError as error:
                found = re.search(r"Function '(\w+?)(?:Backward\d*)?' returned nan", str(error))
                if found is None:
                    raise
        self.hunting = False
        torch.autograd.set_detect_anomaly(False)
        if self.broken is not None:
            origin = self._here(f"the derivative of {found[1].lower()}")
            for file, line in re.findall(r'File "(.+?)", line (\d+)', "\n".join(str(item.message) for item in told)):
                if self.progress.owns(file):
                    origin["line"] = f"{os.path.relpath(os.path.realpath(file), self.progress.root)}:{line}"
            self.broken["origin"] = origin
        return None

    def _break(self, what: str, value: str, parameters: tuple[str, ...] = ()) -> None:
        if self.broken is None and not self.shaken:
            self.broken = {
                "what": what,
                "value": value,
                "step": self.progress.step,
                "line": self.progress.line(),
                "parameters": list(parameters),
                "origin": self.origin,
            }

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to use the gradients."""
        if self.muted:
            return
        bad: list[str] = []
        with torch.no_grad(), self.quiet():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None or parameter.grad.is_sparse:
                        continue
                    size = float(parameter.grad.float().abs().max()) if parameter.grad.numel() else 0.0
                    seen = self.gradients.setdefault(
                        id(parameter),
                        {"parameter": parameter, "largest": 0.0, "steps": 0, "first": None, "shaken": False},
                    )
                    seen["steps"] += 1
                    seen["shaken"] |= self.shaken
                    if not math.isfinite(size):
                        bad.append(self.name_of(parameter))
                        # The weights stay as they are, so that the next backward pass can be searched for the cause.
                        parameter.grad.zero_()
                        seen["largest"] = math.inf
                        continue
                    seen["largest"] = max(seen["largest"], size)
                    if seen["first"] is None:
                        seen["first"] = float(parameter.grad.float().square().mean().sqrt())
        if bad:
            self._break("gradients", "nan or inf", tuple(bad[:8]))
            if self.broken is not None and self.broken["origin"] is None and not self.shaken:
                self.hunting = True
                torch.autograd.set_detect_anomaly(True)

    def name_of(self, parameter: Any) -> str:
        """Return a parameter's path in the module that the script calls."""
        for root in self.roots.values():
            for name, known in root.module.named_parameters():
                if known is parameter:
                    return str(name)
        return "(a tensor of the optimizer)"

    def next_step(self) -> None:
        """A step is done; what belongs to it is forgotten."""
        self.origin = self.infinite = None
        self.targets.clear()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
