"""Parameters of lazy layers, which have no shape before the first call: they remember the device that they are moved to.

Such a parameter holds no bytes. It stays an empty tensor on the host, and is made on its device when its shape is known.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import parameter as parameters
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

_LAZY: Any = parameters.UninitializedTensorMixin  # type: ignore[attr-defined, unused-ignore]
_LIKE = "_preflight_like"


def install() -> None:
    """Let lazy parameters be made on the GPU and moved there."""
    for kind in (UninitializedParameter, UninitializedBuffer):
        _make_on_host(kind)
    UninitializedParameter.__deepcopy__ = _copied
    _LAZY.device = property(lambda tensor: _like(tensor)[0])
    _LAZY.dtype = property(lambda tensor: _like(tensor)[1])
    _LAZY.is_cuda = property(lambda tensor: _like(tensor)[0].type == "cuda")
    _LAZY.materialize = _materialize
    _watch_moves()


def _like(tensor: Any) -> tuple[torch.device, torch.dtype]:
    """Return the device and the type with which a parameter is to be made."""
    device, dtype = tensor.__dict__.get(_LIKE) or (torch.device("cpu"), torch.get_default_dtype())
    return device, dtype


def _make_on_host(kind: Any) -> None:
    make = kind.__new__

    def made(cls: Any, requires_grad: bool = kind is UninitializedParameter, device: Any = None, dtype: Any = None,
             **kwargs: Any) -> Any:  # fmt: skip
        tensor = make(cls, requires_grad, "cpu", **kwargs)
        like = torch.empty(0, device=device, dtype=dtype)  # heeds what a context or a default says, too
        setattr(tensor, _LIKE, (like.device, like.dtype))
        return tensor

    kind.__new__ = made


def _copied(tensor: Any, memo: dict[int, Any]) -> Any:
    if id(tensor) not in memo:
        memo[id(tensor)] = type(tensor)(tensor.requires_grad, *_like(tensor))
    return memo[id(tensor)]


def _materialize(tensor: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
    """Give a parameter its shape."""
    made = torch.empty(shape, device=device or _like(tensor)[0], dtype=dtype or _like(tensor)[1])
    if isinstance(tensor, UninitializedParameter):
        made = torch.nn.Parameter(made, tensor.requires_grad)
    torch.utils.swap_tensors(tensor, made)


def _watch_moves() -> None:
    """Let ``cuda()``, ``to()``, ``half()`` ... of a module change what its lazy parameters remember."""
    apply = torch.nn.Module._apply

    def applied(module: Any, fn: Any, recurse: bool = True) -> Any:
        lazy: list[tuple[dict[str, Any], str, Any]] = []
        for held in (module._parameters, module._buffers):
            lazy += [(held, name, one) for name, one in held.items() if isinstance(one, _LAZY)]
        for held, name, _ in lazy:
            held[name] = None  # keeps its place
        try:
            result = apply(module, fn, recurse)
        finally:
            for held, name, one in lazy:
                held[name] = one
        for _, _, one in lazy:
            like = fn(torch.empty(0, device=_like(one)[0], dtype=_like(one)[1]))
            setattr(one, _LIKE, (like.device, like.dtype))
        return result

    torch.nn.Module._apply = applied  # type: ignore[method-assign, unused-ignore]
