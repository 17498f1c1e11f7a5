"""Looks for the first number that is none any more: in results, losses and gradients, and where it came from."""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import Any

import torch

from preflight.dryrun.virtual.probe.losses import finite

LARGEST = 1 << 21  # elements; larger results are not searched for NaN
_GARBAGE = ("empty", "resize", "new_empty", "set_", "isnan", "nan_to_num", "__get__", "__set__")
_REACH_INFINITY = frozenset(
    "log log2 log10 log1p div true_divide reciprocal rsqrt exp expm1 pow __rtruediv__ __truediv__".split()
)
_SEARCHED = ("forward", "backward")
_VIEWS = frozenset(
    "view reshape transpose permute expand squeeze unsqueeze contiguous detach flatten t __getitem__ to".split()
)


class Breaks:
    """Results, backward passes and gradients of a run.

    Args:
        watch: Knows where the run is, and whether it is the script that runs.

    Attributes:
        backwards: Value, step and line of what each backward pass began with.
        origin: Where a NaN first appeared in this step. infinite: Where an infinite number did.
        broken: The first loss or gradient that was not a number.
        gradients: What was seen of each parameter's gradient, by its identity.
        hunting: Whether the next backward pass is searched for the cause.
    """

    def __init__(self, watch: Any) -> None:
        self.watch, self.progress = watch, watch.progress
        self.backwards: list[dict[str, Any]] = []
        self.origin: dict[str, Any] | None = None
        self.infinite: dict[str, Any] | None = None
        self.broken: dict[str, Any] | None = None
        self.gradients: dict[int, dict[str, Any]] = {}
        self.hunting = False

    def called(self, name: str, result: Any) -> None:
        """A function of PyTorch has run."""
        if self.origin is not None or not isinstance(result, torch.Tensor):
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

    def install(self) -> None:
        """Watch backward passes."""
        run = torch.autograd._engine_run_backward

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            values = (
                [t for t in tensors if isinstance(t, torch.Tensor)]
                if not isinstance(tensors, torch.Tensor)
                else [tensors]
            )
            if not self.watch.muted and len(values) == 1 and values[0].numel() == 1 and len(self.backwards) < 200:
                value = float(values[0].detach())
                record = {"value": finite(value), "step": self.progress.step, "line": self.progress.line()}
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
        if self.broken is None and not self.watch.shaken:
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
        if self.watch.muted:
            return
        bad: list[str] = []
        with torch.no_grad(), self.watch.quiet():
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
                    seen["shaken"] |= self.watch.shaken
                    if not math.isfinite(size):
                        bad.append(self.watch.name_of(parameter))
                        # The weights stay as they are, so that the next backward pass can be searched for the cause.
                        parameter.grad.zero_()
                        seen["largest"] = math.inf
                        continue
                    seen["largest"] = max(seen["largest"], size)
                    if seen["first"] is None:
                        seen["first"] = float(parameter.grad.float().square().mean().sqrt())
        if bad:
            self._break("gradients", "nan or inf", tuple(bad[:8]))
            if self.broken is not None and self.broken["origin"] is None and not self.watch.shaken:
                self.hunting = True
                torch.autograd.set_detect_anomaly(True)
