"""Saving and loading: what went into a file, what came out of it, and what a module or optimizer took in."""

from __future__ import annotations

import os
import sys
from typing import Any

from .digests import dtype_of
from .entry import Entry
from .holdings import holdings
from .naming import Names
from .patching import Patches
from .recorder import Recorder
from .state import States
from .variables import Variable, Variables

_MOST_KEYS = 2000
_MOST_GROUPS = 64


class Checkpoints:
    """Watches ``torch.save``, ``torch.load`` and ``Module.load_state_dict``."""

    def __init__(self, recorder: Recorder, names: Names, variables: Variables, states: States) -> None:
        self.recorder = recorder
        self.names = names
        self.variables = variables
        self.states = states
        self._inside = 0
        self._tied: tuple[Any, list[list[str]]] | None = None

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        torch = self.recorder.torch
        patches.around(torch, "save", self._saving, self._saved)
        patches.around(torch, "load", self._loading, self._loaded)
        patches.around(torch.nn.Module, "load_state_dict", self._taking, self._taken)
        patches.around(torch.nn.Module, "to_empty", self._emptying, self._emptied)

    def _saving(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        if "multiprocessing" in sys.modules and self.recorder.role == "worker":
            return None
        what = kwargs.get("obj", args[0] if args else None)
        where = kwargs.get("f", args[1] if len(args) > 1 else None)
        seen: dict[str, Any] = {"file": _path(where)}
        seen.update(_contents(what, self.recorder.torch))
        seen.update(holdings(what))
        entry = self.recorder.enter("save", "", seen)
        entry.about = what if seen["kind"] in ("state", "dict") else None
        return entry

    def _saved(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        what, entry.about = entry.about, None
        self.recorder.leave(entry, None, error)
        if error is None and what is not None:
            self._contents(what, entry.number)

    def _contents(self, what: Any, call: int) -> None:
        """Hand over what the model and the optimizers are at this moment, and which of it went into the file."""
        torch, states = self.recorder.torch, self.states
        if self.variables.stale or self.names.changed:
            self.variables.refresh()
        told = False
        for part, tensors in _models(what, torch):
            found = _under(tensors, self.variables.by_name)
            if found is None:
                continue
            prefix, held = found
            own = {name for name in self.variables.by_name if name.startswith(prefix)}
            alias = sum(
                variable.tensor is not None and _same_memory(variable.tensor(), tensor) for variable, tensor in held
            )
            extra = {
                "call": call,
                "part": part,
                "under": prefix.rstrip("."),
                "missing": sorted(own - {variable.name for variable, _ in held})[:_MOST_KEYS],
                "unknown": len(tensors) - len(held),
                "alias": alias,
            }
            states.take("saved", "file", held, True, extra)
            told = True
        if told or (isinstance(what, dict) and any(_sort_of(value, torch) == "model" for value in what.values())):
            states.parameters("saved", None, True)
            for index, optimizer in self.variables.optimizers():
                states.optimizer("saved", optimizer, index)

    def _loading(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        where = kwargs.get("f", args[0] if args else None)
        return self.recorder.enter("load", "", {"file": _path(where)})

    def _loaded(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        """Tell how far the run was whose state lies in a file: its schedules, its counters and its optimizers."""
        if entry is None:
            return
        parts = list(value.values())[:64] if isinstance(value, dict) else []
        counts = [one["last_epoch"] for one in parts if isinstance(one, dict) and "last_epoch" in one]
        counts = [one for one in counts if isinstance(one, int)]
        told = {**({"schedules": counts} if counts else {}), **holdings(value)}
        self.recorder.leave(entry, told or None, error)

    def _emptying(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self._tied = (args[0], _ties(args[0]))
        return None

    def _emptied(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if self._say_untied():
            self.variables.stale = True

    def _say_untied(self) -> bool:
        """Tell which parameters that were one before a call are several after it, and whether any are."""
        tied, self._tied = self._tied, None
        if tied is None or not tied[1]:
            return False
        module, before = tied
        held = dict(module.named_parameters(remove_duplicate=False))
        apart = [group for group in before if len({id(held[name]) for name in group if name in held}) > 1]
        if apart:
            name = self.names.root(module, sys._getframe(3))
            groups = [[f"{name}.{one}" for one in group] for group in apart[:_MOST_GROUPS]]
            self.recorder.event("untied", name, {"groups": groups})
        return bool(apart)

    def _taking(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self._inside += 1
        if self._inside > 1:
            return None
        module = args[0]
        given = kwargs.get("state_dict", args[1] if len(args) > 1 else None)
        assigned = kwargs.get("assign", args[3] if len(args) > 3 else False)
        self._tied = (module, _ties(module)) if assigned else None
        strict = kwargs.get("strict", args[2] if len(args) > 2 else True)
        keys = set(given.keys()) if given is not None and hasattr(given, "keys") else set()
        held = module.state_dict(keep_vars=True) if keys else {}
        own = set(held)
        seen = {
            "strict": bool(strict),
            "missing": sorted(own - keys)[:_MOST_KEYS],
            "unexpected": sorted(keys - own)[:_MOST_KEYS],
            "matched": len(own & keys),
            "itself": sum(_same_memory(held[key], given[key]) for key in own & keys) if given else 0,
            "distributed": "torch.distributed.checkpoint" in sys.modules,
        }
        # What is loaded before it is first called is known from now on, so that what came in can be compared.
        named = next(module.parameters(), None) is not None
        name = self.names.root(module, sys._getframe(1)) if named else type(module).__name__
        return self.recorder.enter("load_state_dict", name, seen)

    def _taken(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self._inside = max(0, self._inside - 1)
        if entry is None:
            return
        self.recorder.leave(entry, None, error)
        untied = self._say_untied()
        if error is None:
            if self.variables.stale or self.names.changed:
                self.variables.refresh()
            self.states.parameters("loaded", None, True)
        if untied:
            self.variables.stale = True  # they may be tied again before the next step, which has to look then


def _path(where: Any) -> str | None:
    """The whole path of a file, so that one name in two folders is not taken for one; None where it is none."""
    if not isinstance(where, (str, os.PathLike)):
        return None
    told = os.fsdecode(where)
    try:
        return os.path.abspath(told)
    except OSError:  # the folder that the program runs in is gone
        return told


def _ties(module: Any) -> list[list[str]]:
    """The names of each parameter that a module has in several places."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two tensors are the same numbers in memory; only plain tensors are asked."""
    if one is other:
        return True
    plain = type(other).__name__ in ("Tensor", "Parameter") and type(one).__name__ in ("Tensor", "Parameter")
    if not plain or one.numel() == 0 or one.device.type == "meta":
        return False
    return bool(one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.device == other.device)


def _models(what: Any, torch: Any) -> list[tuple[str, dict[str, Any]]]:
    """The dictionaries of tensors in what is saved: the whole, or some of its first parts."""
    if not isinstance(what, dict) or not what:
        return []
    if all(isinstance(one, torch.Tensor) for one in what.values()):
        return [("", what)]
    return [(str(key), value) for key, value in list(what.items())[:64] if _sort_of(value, torch) == "model"]


def _without_wrappers(key: Any) -> str:
    """The name of a variable as it is without what wraps its module."""
    return ".".join(word for word in str(key).split(".") if word not in ("module", "_orig_mod"))


def _under(tensors: dict[str, Any], known: dict[str, Variable]) -> tuple[str, list[tuple[Variable, Any]]] | None:
    """Under which module's name the names of saved tensors are known, and the variables that they are then."""
    tensors = {_without_wrappers(key): one for key, one in tensors.items()}
    first = next(iter(tensors))
    best: tuple[str, list[tuple[Variable, Any]]] | None = None
    for name in known:
        if name != first and not name.endswith("." + first):
            continue
        prefix = name[: len(name) - len(first)]
        held = [(known[prefix + key], one) for key, one in tensors.items() if prefix + key in known]
        if best is None or len(held) > len(best[1]):
            best = prefix, held
    return best


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
