"""Checkpoints: kept in memory as notes of what would be in the file, and made anew when the script loads them."""

from __future__ import annotations

import copy
import os
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine import tensors


class Note:
    """A tensor of the GPU in a file.

    Args:
        tensor: The tensor.
        memo: What deep copies share.
    """

    def __init__(self, tensor: Any, memo: dict[int, Any]) -> None:
        self.size, self.stride, self.dtype = tuple(tensor.size()), tuple(tensor.stride()), tensor.dtype
        self.parameter, self.gradient = isinstance(tensor, torch.nn.Parameter), tensor.requires_grad
        self.leaf = tensor.is_leaf

    def make(self, device: Any) -> Any:
        """Return a new tensor like the one that was saved."""
        with torch.no_grad():
            new = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=device)
        if self.parameter:
            return torch.nn.Parameter(new, self.gradient)
        return new.requires_grad_(self.gradient) if self.leaf else new

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.make(_LOADING[-1])
        return memo[id(self)]


_LOADING: list[Any] = ["cuda"]
"""Where tensors of the GPU come to lie that are being loaded."""


_MARK = b"saved in a dry run, with nothing in it: "


class Saved:
    """What the script saved. A file holds the number of its object, so that it may be moved, or read by any name.

    Attributes:
        places: (path, file:line) of every save, in order.
    """

    def __init__(self, line: Any) -> None:
        self._objects: list[Any] = []
        self._line = line
        self.places: list[tuple[str, str]] = []

    def keep(self, thing: Any, target: Any) -> None:
        """Keep an object that is saved."""
        content = _MARK + b"%d\n" % len(self._objects)
        self._objects.append(_noted(thing))
        if not isinstance(target, (str, os.PathLike)):
            target.write(content)
            self.places.append(("(a file object)", self._line()))
            return
        self.places.append((os.path.abspath(os.fsdecode(target)), self._line()))
        with open(target, "wb") as file:
            file.write(content)

    def find(self, source: Any) -> tuple[bool, Any]:
        """Return whether a file holds an object that was saved in this run, and the object."""
        try:
            if isinstance(source, (str, os.PathLike)):
                with open(source, "rb") as file:
                    head = file.read(80)
            else:
                at = source.tell()
                head = source.read(80)
                source.seek(at)
        except (OSError, AttributeError, ValueError):
            return False, None
        if not isinstance(head, bytes) or not head.startswith(_MARK):
            return False, None
        return True, self._objects[int(head[len(_MARK) :].split(b"\n")[0])]


def _noted(thing: Any) -> Any:
    """Return a copy of what is saved, with notes in the place of tensors of the GPU: a file holds none of its memory."""
    tensors.KEEPING.append(Note)
    try:
        return copy.deepcopy(thing)
    except Exception:  # pickle could have done it, a deep copy cannot
        return thing
    finally:
        tensors.KEEPING.pop()


def _made(noted: Any, place: Any) -> Any:
    """Return what a load gives: tensors anew, on the device that was asked for."""
    _LOADING.append(_device(place))
    try:
        found = copy.deepcopy(noted)
    except Exception:
        return noted
    finally:
        _LOADING.pop()
    return _all_on(place, found) if _names_gpu(place) else found


def _names_gpu(place: Any) -> bool:
    """Whether a ``map_location`` asks for a GPU, whatever was saved from where: a name, a device, a number."""
    if isinstance(place, int):
        return not isinstance(place, bool)
    return isinstance(place, (str, torch.device)) and torch.device(place).type == "cuda"


def _all_on(place: Any, found: Any) -> Any:
    """Return what was loaded with the tensors of the host on the GPU too: those of the GPU lie there already."""

    def moved(tensor: Any) -> Any:
        if isinstance(tensor, tensors.Fake):
            return tensor
        new = tensor.detach().to(_device(place))
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(new, tensor.requires_grad)
        return new.requires_grad_(tensor.requires_grad) if tensor.is_leaf else new

    return private.map_tensors(torch.Tensor, moved, found)


def _device(place: Any) -> Any:
    """Return the device that ``map_location`` means for tensors of the GPU."""
    if isinstance(place, dict):
        place = next(iter(place.values()), None)
    if callable(place):
        try:
            place = "cpu" if place(torch.UntypedStorage(0), "cuda:0") is not None else None
        except Exception:  # it moves the storage to the GPU
            place = None
    if isinstance(place, int):
        return torch.device("cuda", place)
    return "cuda" if place is None else place


def install(line: Any) -> Saved:
    """Replace ``torch.save``, ``torch.load`` and the functions of safetensors."""
    saved, load = Saved(line), torch.load

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        saved.keep(obj, f)

    def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        found, thing = saved.find(f)
        return _made(thing, map_location) if found else load(f, map_location, *args, **kwargs)

    torch.save, torch.load = save, loaded
    torch.serialization.save, torch.serialization.load = save, loaded
    try:
        import safetensors
        import safetensors.torch as safe
    except ImportError:
        return saved
    _install_safe(saved, safetensors, safe)
    return saved


def _install_safe(saved: Saved, package: Any, safe: Any) -> None:
    load, open_file = safe.load_file, package.safe_open

    def load_file(filename: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> Any:
        found, thing = saved.find(filename)
        return _everywhere(thing, device) if found else load(filename, device, *args, **kwargs)

    def opened(filename: Any, framework: str = "pt", device: Any = "cpu", *args: Any, **kwargs: Any) -> Any:
        found, thing = saved.find(filename)
        return _Open(_everywhere(thing, device)) if found else open_file(filename, framework, device, *args, **kwargs)

    safe.save_file = lambda tensors, filename, metadata=None: saved.keep(tensors, filename)
    safe.load_file = load_file
    safe.safe_open = package.safe_open = opened


def _everywhere(thing: Any, device: Any) -> Any:
    """Return the tensors of a file on one device."""
    return {name: tensor.detach().to(device) for name, tensor in _made(thing, device).items()}


class _Open:
    """An open file of safetensors.

    Args:
        tensors: What is in it.
    """

    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = tensors

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._tensors)

    offset_keys = keys

    def metadata(self) -> dict[str, str]:
        """Return what is said of the file."""
        return {"format": "pt"}

    def get_tensor(self, name: str) -> Any:
        """Return a tensor."""
        return self._tensors[name]

    get_slice = get_tensor
