"""Large tensors of the host without numbers: a model of many billion weights is made in a small memory.

Fresh memory costs nothing before it is written. So what only fills a large floating-point tensor with drawn numbers,
changes its type or copies it is left out while nothing but drawn numbers would have been in it. The tensor stays a real
one, with zeros where nobody wrote. Integers, and whatever was read from data, are computed as ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from typing import Any

import torch

from preflight.dryrun.virtual import private

LARGE = 4 << 20
"""Bytes; smaller tensors are filled for real."""
_M_MMAP_THRESHOLD = -3  # malloc.h of the GNU C library

_MADE = frozenset("empty new_empty empty_like empty_strided new_empty_strided".split())
_DRAWN = {
    "randn": "empty",
    "rand": "empty",
    "randn_like": "empty_like",
    "rand_like": "empty_like",
}
_FILLED = frozenset(
    "normal_ uniform_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_ trunc_normal_".split()
)
_COPIES = frozenset("_to_copy clone cat stack repeat copy_".split())
_VIEWS = frozenset("detach alias lift_fresh set_".split())


class Hollow:
    """The storages of the host in which nothing has been written but drawn numbers."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        fresh_memory()

    def run(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on tensors of the host."""
        if name in _MADE:
            return self._mark(func(*args, **kwargs))
        if name in _DRAWN:
            return self._drawn(name, func, args, kwargs)
        if name in _FILLED and self._whole(args[0]):
            return args[0]
        if not self._known:
            return func(*args, **kwargs)
        return self._follow(name, func, args, kwargs)

    def _drawn(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Make a tensor of drawn numbers, without the numbers where it is large."""
        shape = args[0].shape if name.endswith("_like") else args[0]
        dtype = kwargs.get("dtype") or (args[0].dtype if name.endswith("_like") else torch.get_default_dtype())
        count = 1
        for length in shape:
            count *= length
        if count * dtype.itemsize < LARGE or kwargs.get("layout") not in (None, torch.strided):
            return func(*args, **kwargs)
        options = {key: value for key, value in kwargs.items() if key not in ("generator", "names")}
        return self._mark(getattr(torch, _DRAWN[name])(args[0], **options))

    def _mark(self, tensor: Any) -> Any:
        if _is_large(tensor) and tensor.device.type == "cpu":
            storage = tensor.untyped_storage()
            key = storage._cdata
            self._known[key] = weakref.ref(storage, lambda _: self._known.pop(key, None))
        return tensor

    def _whole(self, tensor: Any) -> bool:
        """Whether a fill may be left out: the tensor is hollow, or large and all of its storage."""
        if not _is_large(tensor) or tensor.device.type != "cpu":
            return False
        if tensor.untyped_storage()._cdata in self._known:
            return True
        if tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes():
            self._mark(tensor)
            return True
        return False

    def _follow(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [t for t in private.leaves(args, kwargs) if isinstance(t, torch.Tensor)]
        if not any(self.holds(t) for t in tensors):
            return func(*args, **kwargs)
        if getattr(func, "is_view", False) or name in _VIEWS:
            return func(*args, **kwargs)
        pure = all(t.numel() <= 1 or self.holds(t) for t in tensors)
        quiet = pure and (name in _COPIES or torch.Tag.pointwise in func.tags)
        if func._schema.is_mutable:
            if quiet and isinstance(args[0], torch.Tensor) and _is_large(args[0]) and "out" not in kwargs:
                return args[0]
            self._written(args, kwargs, pure and len(tensors) == 1)
            return func(*args, **kwargs)
        return self._quiet(func, args, kwargs) if quiet else func(*args, **kwargs)

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies in a hollow storage."""
        return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in self._known

    def _quiet(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator gives, without computing it where it is large."""
        options = {**kwargs, "device": torch.device("meta")} if kwargs.get("device") is not None else kwargs
        shapes, options = private.map_tensors(torch.Tensor, _shape_of, (args, options))
        shape = func(*shapes, **options)
        if isinstance(shape, torch.Tensor) and _is_large(shape):
            return self._mark(torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype))
        return func(*args, **kwargs)

    def _written(self, args: Any, kwargs: Any, filled: bool) -> None:
        """Numbers that count are written into what an operator changes."""
        if filled:
            return
        for tensor in private.leaves((args[:1], kwargs.get("out")), {}):
            if isinstance(tensor, torch.Tensor):
                self._known.pop(tensor.untyped_storage()._cdata, None)


def _is_large(tensor: Any) -> bool:
    return bool(
        tensor.is_floating_point()
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "meta")
        and tensor.numel() * tensor.element_size() >= LARGE
    )


def _shape_of(tensor: Any) -> Any:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def fresh_memory() -> None:
    """Let the GNU C library take large tensors from the kernel, so that memory that nobody writes to is not there."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE)
