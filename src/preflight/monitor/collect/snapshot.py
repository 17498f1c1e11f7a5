"""Everything that a training goes on from, saved as it is at the end of an iteration.

Saved is what the person's code has in sight where the iteration ends, under the names of its variables: modules,
and whatever has ``state_dict`` and ``load_state_dict`` (optimizers, schedules, scalers ...), generators, and the states of
the random generators. Tensors are saved as they lie on the rank, so that no rank has to wait for another.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from types import FrameType
from typing import Any

from .naming import Names, user_frames
from .portable import portable
from .recorder import Recorder
from .scope import attributes_of, is_a, variables

SCHEMA = "preflight.checkpoint/1"
FOLDER = "checkpoints"
_MOST = 200
_NEAR = 12
"""Frames between a loop over a loader and the library that goes through it."""


OFFSET = {"iteration": 0, "step": 0, "epoch": 0}
"""What a program that goes on from a checkpoint had done before it began."""


class Sight:
    """What can be saved: what is in sight of the person's code, and what the recorder knows besides.

    Attributes:
        wanted: Whether a checkpoint may be asked for.
        loader: The number of the loader that the training loop goes through; -1 where there is none.
        epoch: Of that loop. fetched: How many of its batches have been fetched.
    """

    def __init__(self, names: Names, variables: Any) -> None:
        self.names = names
        self.variables = variables
        self.wanted = False
        self.loader = -1
        self.epoch = 0
        self.fetched = 0
        self._begun: dict[int, tuple[int, dict[str, Any], dict[str, Any]]] = {}
        self._ahead: set[int] = set()  # loaders of which one batch more is fetched than was handed on

    def began(self, number: int, epoch: int, loader: Any) -> None:
        """A loop over a loader begins: keep what its order depends on."""
        self._begun[number] = (epoch, random_states(), generator_states(loader))
        (self._ahead.add if _fetched_ahead(sys._getframe(1)) else self._ahead.discard)(number)

    @property
    def handed_on(self) -> int:
        """How many batches of the loop the training has had."""
        return max(0, self.fetched - (self.loader in self._ahead))

    def fetches(self, loader: int, epoch: int, number: int) -> None:
        """A training batch is about to be fetched."""
        self.loader, self.epoch, self.fetched = loader, epoch, number

    def epoch_states(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The states of the generators when the loop that goes on now began: those of the process, the loader's own."""
        known = self._begun.get(self.loader)
        return (None, {}) if known is None or known[0] != self.epoch else known[1:]

    def objects(self) -> dict[str, Any]:
        """What has a state, by the name of its variable; the innermost of equal names."""
        torch = sys.modules["torch"]
        found: dict[str, Any] = {}
        held: set[int] = set()
        for frame in user_frames(sys._getframe(1)):
            local = variables(frame)
            owner = attributes_of(local.get("self"))
            parts = owner.get("_modules")
            for scope in (local, owner, parts, frame.f_globals):
                for name, value in list(scope.items()) if isinstance(scope, dict) else ():
                    if name == "self" or name.startswith("__") or id(value) in held or len(found) >= _MOST:
                        continue
                    if name not in found and _has_state(value, torch):
                        found[name] = value
                        held.add(id(value))
        for name, module in self.names.living():
            if id(module) not in held:
                found.setdefault(name, module)
        for index, known in self.variables.optimizers():
            if id(known) not in held:
                found.setdefault(f"optimizer{index}", known)
        return found


def _fetched_ahead(frame: FrameType | None) -> bool:
    """Whether Accelerate goes through the loader: to know which batch is the last it fetches the next one before it."""
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            return type(frame.f_locals.get("self")).__name__ == "DataLoaderShard"
        frame = frame.f_back
    return False


def _has_state(value: Any, torch: Any) -> bool:
    """Whether something has a state to be saved; only types are looked at, so that nothing of the person's runs."""
    if is_a(value, (torch.nn.Module, torch.Generator)):
        return True
    kind = type(value)
    return (
        kind is not type
        and callable(getattr(kind, "state_dict", None))
        and callable(getattr(kind, "load_state_dict", None))
    )


def random_states() -> dict[str, Any]:
    """The states of the generators of this process, none of them moved."""
    torch = sys.modules["torch"]
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        kind, keys, at, has, cached = numpy.random.get_state()
        states["numpy"] = (kind, keys.tolist(), int(at), int(has), float(cached))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def generators_of(loader: Any) -> dict[str, Any]:
    """The generators that a loader's order is drawn from."""
    sampler = getattr(loader, "sampler", None)
    places = {
        "loader": loader,
        "sampler": sampler,
        "batch_sampler": getattr(getattr(loader, "batch_sampler", None), "sampler", None),
    }
    kind = sys.modules["torch"].Generator
    found = {name: getattr(owner, "generator", None) for name, owner in places.items()}
    return {name: one for name, one in found.items() if isinstance(one, kind)}


def generator_states(loader: Any) -> dict[str, Any]:
    """The states of these generators."""
    return {name: one.get_state() for name, one in generators_of(loader).items()}


def local(value: Any) -> Any:
    """The part of a distributed tensor that lies on this rank; what is nested, with such parts inside."""
    if hasattr(value, "to_local") and hasattr(value, "device_mesh"):
        return value.to_local().detach()
    if isinstance(value, dict):
        return {key: local(one) for key, one in value.items()}
    if isinstance(value, list):
        return [local(one) for one in value]
    return value


def module_state(module: Any) -> dict[str, Any]:
    """Parameters and buffers as they lie on this rank, those that are not in a state dictionary too, and flags."""
    return {
        "parameters": {name: local(one.detach()) for name, one in module.named_parameters(remove_duplicate=False)},
        "buffers": {name: local(one.detach()) for name, one in module.named_buffers(remove_duplicate=False)},
        "extra": {
            name: part.get_extra_state()
            for name, part in module.named_modules()
            if type(part).get_extra_state is not sys.modules["torch"].nn.Module.get_extra_state
        },
        "training": {name: part.training for name, part in module.named_modules()},
        "gradients": {
            name: local(one.grad.detach())
            for name, one in module.named_parameters(remove_duplicate=False)
            if one.grad is not None
        },
        "trainable": {name: one.requires_grad for name, one in module.named_parameters(remove_duplicate=False)},
    }


def _without_strange(extra: dict[str, Any]) -> dict[str, str]:
    """Take out the extra states of parts that could not be read back; return why, by part."""
    strange: dict[str, str] = {}
    for part, value in list(extra.items()):
        try:
            extra[part] = portable(local(value))
        except TypeError as error:
            del extra[part]
            strange[part] = str(error)
    return strange


def save(recorder: Recorder, sight: Sight, rank: int, random_: dict[str, Any] | None) -> str:
    """Write the file of this rank, whole or not at all; return its path."""
    torch = recorder.torch
    ended = recorder.iteration + 1
    saved: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    for name, value in sight.objects().items():
        try:
            if isinstance(value, torch.nn.Module):
                state: Any = module_state(value)
                kind = "module"
                for part, why in _without_strange(state["extra"]).items():
                    skipped[f"{name}.{part}" if part else name] = f"its extra state: {why}"
            elif isinstance(value, torch.Generator):
                state, kind = value.get_state(), "generator"
            else:
                state, kind = portable(local(value.state_dict())), "state"
            saved[name] = {"kind": kind, "type": type(value).__name__, "state": state}
        except Exception as error:
            if not isinstance(value, torch.utils.data.DataLoader):  # what a loader goes on with is kept beside
                skipped[name] = f"{type(error).__name__}: {error}"
    dist = torch.distributed
    world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    epoch_random, generators = sight.epoch_states()
    ended += OFFSET["iteration"]
    content = {
        "schema": SCHEMA, "iteration": ended, "step": recorder.step + OFFSET["step"], "rank": rank, "world": world,
        "torch": str(torch.__version__), "objects": saved, "skipped": skipped, "random": random_,
        "loader": sight.loader, "epoch": sight.epoch + OFFSET["epoch"], "fetched": sight.handed_on,
        "epoch_random": epoch_random, "generators": generators,
    }  # fmt: skip
    folder = os.path.join(recorder.settings.folder, FOLDER, f"iteration-{ended:08d}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"rank-{rank:05d}.pt")
    part = f"{path}.{os.getpid()}.part"
    try:
        torch.save(content, part)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    recorder.event("checkpoint", "", {"file": path, "names": sorted(saved), "skipped": sorted(skipped)})
    for name, why in skipped.items():
        recorder.put(
            "trouble", (recorder.number(), recorder.iteration, "checkpoint", f"{name} is not in it: {why}"[:500])
        )
    return path
