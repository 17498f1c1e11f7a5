"""Saving and loading: what went into a file, what came out of it, and what a module or optimizer took in."""

from __future__ import annotations

import os
import sys
from typing import Any

from .digests import dtype_of
from .naming import Names
from .patching import Patches
from .recorder import Entry, Recorder
from .state import States
from .variables import Variables

_MOST_KEYS = 2000


class Checkpoints:
    """Watches ``torch.save``, ``torch.load`` and ``Module.load_state_dict``."""

    def __init__(self, recorder: Recorder, names: Names, variables: Variables, states: States) -> None:
        self.recorder = recorder
        self.names = names
        self.variables = variables
        self.states = states
        self._inside = 0

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        torch = self.recorder.torch
        patches.around(torch, "save", self._saving, self._saved)
        patches.around(torch, "load", self._loading)
        patches.around(torch.nn.Module, "load_state_dict", self._taking, self._taken)

    def _saving(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if "multiprocessing" in sys.modules and self.recorder.role == "worker":
            return None
        what = kwargs.get("obj", args[0] if args else None)
        where = kwargs.get("f", args[1] if len(args) > 1 else None)
        seen: dict[str, Any] = {"file": os.fspath(where) if isinstance(where, (str, os.PathLike)) else None}
        seen.update(_contents(what, self.recorder.torch))
        return self.recorder.enter("save", "", seen)

    def _saved(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        self.recorder.leave(entry, None, type(error).__name__ if error else None)

    def _loading(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        where = kwargs.get("f", args[0] if args else None)
        return self.recorder.enter(
            "load", "", {"file": os.fspath(where) if isinstance(where, (str, os.PathLike)) else None}
        )

    def _taking(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self._inside += 1
        if self._inside > 1:
            return None
        module = args[0]
        given = kwargs.get("state_dict", args[1] if len(args) > 1 else None)
        strict = kwargs.get("strict", args[2] if len(args) > 2 else True)
        keys = set(given.keys()) if given is not None and hasattr(given, "keys") else set()
        own = set(module.state_dict(keep_vars=True)) if keys else set()
        seen = {
            "strict": bool(strict),
            "missing": sorted(own - keys)[:_MOST_KEYS],
            "unexpected": sorted(keys - own)[:_MOST_KEYS],
            "matched": len(own & keys),
        }
        return self.recorder.enter("load_state_dict", self.names.of(module) or type(module).__name__, seen)

    def _taken(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self._inside = max(0, self._inside - 1)
        if entry is None:
            return
        self.recorder.leave(entry, None, type(error).__name__ if error else None)
        if error is None and not self.variables.stale:
            self.states.parameters("loaded", None, True)


def _contents(what: Any, torch: Any) -> dict[str, Any]:
    """What a saved object holds: its first keys, and for each part whether it looks like the state of a model."""
    if isinstance(what, torch.nn.Module):
        return {"kind": "module", "type": type(what).__name__}
    if not isinstance(what, dict):
        return {"kind": type(what).__name__}
    parts: dict[str, str] = {}
    for key, value in list(what.items())[:64]:
        parts[str(key)] = _sort_of(value, torch)
    tensors = {str(key): value for key, value in list(what.items())[:_MOST_KEYS] if isinstance(value, torch.Tensor)}
    dtypes = sorted({dtype_of(value) for value in tensors.values()})
    return {"kind": "state" if tensors and len(tensors) == len(what) else "dict", "parts": parts, "dtypes": dtypes}


def _sort_of(value: Any, torch: Any) -> str:
    """What a part of a checkpoint is: tensor, model state, optimizer state, scheduler state, number, other."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, dict):
        if set(value) == {"state", "param_groups"}:
            return "optimizer" if value["state"] else "optimizer without state"
        if "last_epoch" in value:
            return "scheduler"
        if "_growth_tracker" in value or {"scale", "growth_factor"} <= set(value):
            return "scaler"
        if value and all(isinstance(one, torch.Tensor) for one in value.values()):
            return "model"
        return "dict"
    return "number" if isinstance(value, (int, float)) else type(value).__name__
