"""Goes on from a checkpoint that ``preflight monitor run --on-violation checkpoint`` let the ranks write."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from preflight.errors import InputError, UsageError, nearest
from preflight.monitor.collect.snapshot import FOLDER, OFFSET, SCHEMA, generators_of

Path_ = str | os.PathLike[str]


class Resumed:
    """Where a training goes on.

    Attributes:
        iteration: How many iterations had ended: the number of the next one.
        step: How many optimizer steps had been done.
        epoch: The epoch of the training loader that was going on; 0 where there was no loader.
        fetched: How many of its batches the training had had.
    """

    def __init__(self, saved: dict[str, Any]) -> None:
        self.iteration: int = saved["iteration"]
        self.step: int = saved["step"]
        self.epoch: int = saved["epoch"]
        self.fetched: int = saved["fetched"] if saved["loader"] >= 0 else 0
        self._random: dict[str, Any] = saved["random"] or {}
        self._epoch_random: dict[str, Any] | None = saved["epoch_random"]
        self._generators: dict[str, Any] = saved["generators"]
        self._begun = saved["loader"] < 0

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader: at the first call those that are left of the epoch, later all.

        The order is drawn anew as it was drawn before, and the batches that the training has had are passed over.
        """
        if self._begun:
            yield from loader
            return
        self._begun = True
        if self._epoch_random is not None:
            set_random(self._epoch_random)
        for name, generator in generators_of(loader).items():
            if name in self._generators:
                generator.set_state(self._generators[name])
        iterator = iter(loader)
        for _ in range(self.fetched):
            if next(iterator, None) is None:
                break
        set_random(self._random)
        yield from iterator


def resume(folder: Path_, /, **objects: Any) -> Resumed:
    """Put the state of a checkpoint into the objects of a program that begins again, and say where it goes on.

    Call it when everything is made and before the training loop, on every rank::

        state = preflight.resume("trace", model=model, optimizer=optimizer, scheduler=scheduler)
        for epoch in range(state.epoch, epochs):
            for batch in state.batches(loader):
                ...

    Args:
        folder: The trace folder (its newest checkpoint is taken), or the folder of one checkpoint.
        objects: What goes on, each under the name of the variable that held it: modules, and what has
            ``load_state_dict``, and generators.

    Raises:
        InputError: There is no checkpoint for this rank, or it is damaged.
        UsageError: The checkpoint has nothing of a name, or it does not fit.
    """
    from importlib import import_module

    torch: Any = import_module("torch")
    saved = _read(_file(Path(folder), torch), torch)
    held = saved["objects"]
    skipped = saved.get("skipped", {})
    for name, value in objects.items():
        if name not in held and name in skipped:
            raise UsageError(f"{name!r} was not saved: {skipped[name]}", "leave it out, and make it anew")
        _put(_entry(name, value, held), name, value, torch)
    set_random(saved["random"] or {})
    _tell_recorder(saved)
    return Resumed(saved)


def set_random(states: dict[str, Any]) -> None:
    """Set the generators of this process to states that were kept."""
    torch = sys.modules["torch"]
    if "torch" in states:
        torch.set_rng_state(states["torch"])
    if "python" in states:
        version, keys, following = states["python"]
        random.setstate((version, tuple(keys), following))
    if "numpy" in states:
        import numpy

        kind, keys, at, has, cached = states["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), at, has, cached))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def _file(folder: Path, torch: Any) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder", "name the trace folder, or a folder of its checkpoints")
    inner = folder / FOLDER
    if inner.is_dir():
        folder = max((path for path in inner.glob("iteration-*") if path.is_dir()), default=inner)
    dist = torch.distributed
    ready = dist.is_available() and dist.is_initialized()
    rank = dist.get_rank() if ready else int(os.environ.get("RANK", 0))
    world = dist.get_world_size() if ready else int(os.environ.get("WORLD_SIZE", 1))
    files = sorted(folder.glob("rank-*.pt"))
    if not files:
        raise InputError(f"{folder} holds no checkpoint", "preflight monitor run --on-violation checkpoint makes one")
    if len(files) != world:
        raise InputError(f"{folder} is of {len(files)} ranks, and this program has {world}")
    return folder / f"rank-{rank:05d}.pt"


def _read(path: Path, torch: Any) -> dict[str, Any]:
    """Read a file without running anything that is in it."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0] if str(error) else error!r}") from error
    if not isinstance(saved, dict) or saved.get("schema") != SCHEMA:
        raise InputError(f"{path} is no checkpoint of this version")
    return saved


def _entry(name: str, value: Any, held: dict[str, Any]) -> dict[str, Any]:
    """What was saved for an object: under its name, or the only one of its type."""
    if name in held:
        return dict(held[name])
    same = [one for one in held.values() if one["type"] == type(value).__name__]
    if len(same) == 1:
        return dict(same[0])
    near = nearest(name, held)
    raise UsageError(
        f"the checkpoint has nothing called {name!r}",
        f"did you mean {near}?" if near else f"it has {', '.join(sorted(held)) or 'nothing'}",
    )


def _put(entry: dict[str, Any], name: str, value: Any, torch: Any) -> None:
    state = entry["state"]
    try:
        if isinstance(value, torch.nn.Module):
            _put_module(state, value, torch)
        elif isinstance(value, torch.Generator):
            value.set_state(state)
        elif isinstance(value, torch.optim.Optimizer):
            _put_optimizer(state, value, torch)
        else:
            value.load_state_dict(state)
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"what was saved as {name!r} ({entry['type']}) does not fit: {error}") from error


def _put_module(state: dict[str, Any], module: Any, torch: Any) -> None:
    here = {
        "parameters": dict(module.named_parameters(remove_duplicate=False)),
        "buffers": dict(module.named_buffers(remove_duplicate=False)),
    }
    for kind, tensors in here.items():
        if set(tensors) != set(state[kind]):
            differing = sorted(set(tensors) ^ set(state[kind]))
            raise ValueError(f"{kind} differ: {', '.join(differing[:5])}")
        with torch.no_grad():
            for name, tensor in tensors.items():
                target = _local(tensor)
                if target.shape != state[kind][name].shape:
                    raise ValueError(f"{name} is {tuple(target.shape)}, saved is {tuple(state[kind][name].shape)}")
                target.copy_(state[kind][name])
    for name, tensor in here["parameters"].items():
        tensor.requires_grad_(state["trainable"][name])
        gradient = state["gradients"].get(name)
        tensor.grad = None if gradient is None else _like(gradient, tensor)
    parts = dict(module.named_modules())
    for name, flag in state["training"].items():
        if name in parts:
            parts[name].training = flag
    for name, extra in state["extra"].items():
        parts[name].set_extra_state(extra)


def _put_optimizer(state: dict[str, Any], optimizer: Any, torch: Any) -> None:
    """Load the state of an optimizer; that of parameters which are distributed becomes distributed again."""
    parameters = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    for index, held in state["state"].items():
        tensor = parameters[index] if isinstance(index, int) and index < len(parameters) else None
        if tensor is not None and hasattr(tensor, "device_mesh"):
            for key, value in held.items():
                if isinstance(value, torch.Tensor) and value.shape == tensor.to_local().shape and value.dim():
                    held[key] = _like(value, tensor)
    optimizer.load_state_dict(state)


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "device_mesh") else tensor


def _like(value: Any, tensor: Any) -> Any:
    """A local part as a tensor that lies where another does."""
    value = value.to(_local(tensor).device)
    if not hasattr(tensor, "device_mesh"):
        return value
    kind = type(tensor) if hasattr(type(tensor), "from_local") else type(tensor.data)
    return kind.from_local(value, tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride())


def _tell_recorder(saved: dict[str, Any]) -> None:
    """Let a recorder in this process count on from here, so that a later checkpoint says where it is in the whole."""
    for name in ("_preflight_recorder.snapshot", "preflight.monitor.collect.snapshot"):
        module = sys.modules.get(name)
        offset = getattr(module, "OFFSET", None) if module is not None else OFFSET
        if isinstance(offset, dict):
            offset.update({key: saved[key] for key in ("iteration", "step", "epoch")})
