"""What behaves differently in training and in evaluation: dropout and running statistics of a model, found once.

At each forward pass of a root it is told how many of these parts are in training mode: a few attributes are read.
"""

from __future__ import annotations

import weakref
from typing import Any

from .naming import Names, parts, replica
from .places import is_of_library
from .plain import Outside, impossible
from .plain import parts as plain_parts
from .recorder import Recorder

_MOST_NAMES = 64
_MOST_KINDS = 4096
_LOOKS = 6  # passes in evaluation mode in which it is asked whether statistics were ever followed
_OWN_LOOKS = 3  # passes in training mode in which the same is asked of layers that the program wrote itself
_OWN_SETTLED = 2  # steps after which those should have been
_SETTLED = 3  # steps after which they should have been
_WRITTEN = 4  # how often a parameter is written while it is made and loaded, at most
_CONTAINERS = ("Module", "Sequential", "ModuleList", "ModuleDict")


class _Root:
    """The parts of one root, held weakly."""

    __slots__ = ("begun", "by_mode", "dropouts", "looks", "module", "names", "norms", "own", "own_looks")

    def __init__(self, module: Any, begun: int) -> None:
        self.module = weakref.ref(module)
        self.looks = self.own_looks = 0
        self.by_mode = 0  # how many modules were known then that drop in their own code
        self.begun = begun  # the count of steps
        self.own: list[tuple[weakref.ref[Any], int]] = []  # with how often the parameters of each were written to
        self.dropouts: list[weakref.ref[Any]] = []
        self.norms: list[weakref.ref[Any]] = []
        self.names: dict[str, list[str]] = {"dropout": [], "norm": []}


class Modal:
    """Finds the parts that have a mode, and reads it."""

    def __init__(self, recorder: Recorder, names: Names) -> None:
        self.recorder = recorder
        self.names = names
        self._roots: dict[int, _Root] = {}
        self._by_mode: dict[int, weakref.ref[Any]] = {}  # modules that drop in their own code, by their identity
        self._noted = 0  # how many of them were found
        self._bases: dict[type, str | None] = {}
        nn = recorder.torch.nn
        self.dropout = nn.modules.dropout._DropoutNd
        self._recurrent = nn.RNNBase
        self._attention = nn.MultiheadAttention
        self._norm = nn.modules.batchnorm._NormBase

    def base(self, kind: type) -> str | None:
        """The layer of torch that a class of the program is made from, None for torch's own and for containers."""
        try:
            return self._bases[kind]
        except KeyError:
            layers = [one for one in kind.__mro__ if one.__module__.startswith("torch.nn.modules.")]
            name = layers[0].__name__ if layers and layers[0] is not kind else None
            if len(self._bases) >= _MOST_KINDS:
                self._bases.clear()  # a program that makes classes as it goes
            self._bases[kind] = name = None if name in _CONTAINERS else name
            return name

    def by_mode(self, part: Any) -> None:
        """Note a part of a model that calls dropout as a function, with its own mode."""
        if self._in_code(part) or self.names.of(part) is None or len(self._by_mode) >= _MOST_KINDS:
            return
        self._by_mode[id(part)] = weakref.ref(part)
        self._noted += 1

    def _in_code(self, part: Any) -> bool:
        known = self._by_mode.get(id(part))
        return known is not None and known() is part

    def of(self, name: str, module: Any) -> dict[str, Any]:
        """How many parts of a root drop or follow statistics, and how many of them are in training mode."""
        known = self._roots.get(id(module))
        changed = (self.names.changed and self.recorder.detail) or (known is not None and known.by_mode != self._noted)
        if known is None or known.module() is not module or changed:
            known = self._look(name, module, known)
        told: dict[str, Any] = {}
        if known.dropouts:
            told["dropouts"] = len(known.dropouts)
            told["dropout"] = sum(1 for one in known.dropouts if (part := one()) is not None and part.training)
        if known.norms:
            told["norms"] = len(known.norms)
            # A momentum of 0 pauses the statistics as evaluation does; None takes the mean of all batches.
            told["norm"] = sum(
                1 for one in known.norms if (part := one()) is not None and part.training and part.momentum != 0
            )
            # With a momentum of 1 the statistics are those of the last batch: somebody estimates them anew.
            estimating = sum(1 for one in known.norms if (part := one()) is not None and part.momentum == 1)
            if estimating and module.training:
                told["estimating"] = estimating
            settled = not module.training and known.looks < _LOOKS and self.recorder.step >= _SETTLED
            if settled and not impossible(self.recorder.torch):
                known.looks += 1
                # In its own context: the pass is told where this cannot be.
                with self.recorder.work("statistics"):
                    if _written(module):
                        told["untouched"] = _untouched(self.recorder.torch, known.norms)
                    elif self._averaged(known):
                        told["untouched"] = _fresh(self.recorder.torch, _evaluated(known))
        if known.own and module.training and known.own_looks < _OWN_LOOKS:
            self._own(known, told)
        return told

    def _averaged(self, known: _Root) -> bool:
        """Whether the weights of a root were changed through ``.data``, which torch does not count, as averages are.

        Shifts of its layers have several values, where layers are made with one; and another root with such layers has
        followed the data in them.
        """
        own = [tuple(part.running_mean.shape) for part in _evaluated(known)]
        for other in list(self._roots.values()):
            held = _following(other)
            if other is known or not own or [tuple(part.running_mean.shape) for part in held] != own:
                continue
            if not _fresh(self.recorder.torch, held):
                return _moved(self.recorder.torch, _evaluated(known))
        return False

    def _own(self, known: _Root, told: dict[str, Any]) -> None:
        """Count the program's own layers with running statistics that were trained, and those that never followed any."""
        if self.recorder.step < known.begun + _OWN_SETTLED or impossible(self.recorder.torch):
            return
        known.own_looks += 1
        with self.recorder.work("statistics"):
            held = [(one(), before) for one, before in known.own]
            trained = [one for one, before in held if one is not None and one.training and _writes(one) > before]
            if trained:
                told["own"] = len(trained)
                told["unfollowed"] = _fresh(self.recorder.torch, trained)

    def _look(self, name: str, module: Any, before: _Root | None) -> _Root:
        found = _Root(module, self.recorder.step)
        for part_name, part in parts(module, name):
            if self._drops(part):
                found.dropouts.append(weakref.ref(part))
                found.names["dropout"].append(part_name)
            elif isinstance(part, self._norm) and part.track_running_stats and part.running_mean is not None:
                found.norms.append(weakref.ref(part))
                found.names["norm"].append(part_name)
            elif self._follows(part):
                found.own.append((weakref.ref(part), _writes(part)))
        if before is not None and before.module() is module:
            found.begun, found.own_looks = before.begun, before.own_looks
            if len(before.own) == len(found.own):
                found.own = before.own
        found.looks = before.looks if before is not None and before.module() is module else 0
        found.by_mode = self._noted
        self._roots[id(module)] = found
        told = before is not None and before.module() is module and before.names == found.names
        if not told:
            short = {word: names[:_MOST_NAMES] for word, names in found.names.items()}
            held = replica(module)
            more: dict[str, Any] = {"library": True} if is_of_library(type(held)) else {}
            if held is not module:
                more["inner"] = type(held).__name__
            self.recorder.event("root", name, {"type": type(module).__name__, **more, **short})
        return found

    def _follows(self, part: Any) -> bool:
        """Whether a layer of the program's own keeps running statistics beside parameters that are trained."""
        buffers = part._buffers
        if not isinstance(buffers, dict):
            return False  # a scripted module: nothing of it runs in Python
        if buffers.get("running_mean") is None or buffers.get("running_var") is None or isinstance(part, self._norm):
            return False
        if not getattr(part, "track_running_stats", True) or getattr(part, "momentum", None) == 0:
            return False
        return any(one is not None and one.requires_grad for one in part._parameters.values())

    def _drops(self, part: Any) -> bool:
        if self._in_code(part):
            return True
        if isinstance(part, self.dropout):
            return bool(part.p > 0)
        if isinstance(part, self._recurrent):
            return bool(part.dropout > 0 and part.num_layers > 1)
        return isinstance(part, self._attention) and bool(part.dropout > 0)


def _written(module: Any) -> bool:
    """Whether the parameters of a module were changed more often than it takes to make and load them."""
    return any(not one.is_inference() and one._version > _WRITTEN for one in module.parameters())


def _evaluated(known: _Root) -> list[Any]:
    """The layers of a root that normalise by their statistics."""
    return [part for part in _following(known) if not part.training]


def _following(known: _Root) -> list[Any]:
    """The layers of a root that keep running statistics."""
    return [part for one in known.norms if (part := one()) is not None and part.running_mean is not None]


def _moved(torch: Any, held: list[Any]) -> bool:
    """Whether the shift of a layer whose statistics were hardly ever written to has several values."""
    with Outside(torch):
        for part in held:
            if part.bias is None or not _young(part.running_mean):
                continue
            shifts = plain_parts(torch, part.bias)
            if shifts is not None and len(shifts) == 1 and bool((shifts[0] != shifts[0].reshape(-1)[0]).any()):
                return True
    return False


def _untouched(torch: Any, norms: list[weakref.ref[Any]]) -> int:
    """How many statistics are what they were made with: a mean of 0 and a variance of 1, hardly ever written to."""
    held = [part for one in norms if (part := one()) is not None and not part.training and not _unused(part)]
    return _fresh(torch, held)


def _fresh(torch: Any, held: list[Any]) -> int:
    """How many layers have the statistics that they were made with.

    They are asked together: of each device one answer is waited for.
    """
    fresh: dict[Any, list[Any]] = {}
    with Outside(torch):
        for part in held:
            if not _young(part.running_mean):
                continue
            mean, variance = plain_parts(torch, part.running_mean), plain_parts(torch, part.running_var)
            if mean is not None and variance is not None and len(mean) == len(variance) == 1:
                alike = (mean[0] == 0).all() & (variance[0] == 1).all()
                fresh.setdefault(alike.device, []).append(alike)
        return sum(int(torch.stack(found).sum()) for found in fresh.values())


def _writes(part: Any) -> int:
    """How often the parameters of a layer were written to, as torch counts it."""
    held = (one for one in part._parameters.values() if one is not None and one.requires_grad)
    return sum(one._version for one in held if not one.is_inference())


def _unused(part: Any) -> bool:
    """Whether nothing trains a layer that could be trained: it is held, and no forward pass comes through it."""
    weight = part.weight
    return weight is not None and weight.requires_grad and not weight.is_inference() and weight._version <= _WRITTEN


def _young(mean: Any) -> bool:
    """Whether a running mean lies where it can be read and was hardly ever written to."""
    if mean is None or mean.is_inference() or mean.device.type not in ("cpu", "cuda"):
        return False
    return bool(mean._version <= _WRITTEN)
