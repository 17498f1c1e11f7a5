"""States in a form that is read back without running anything: numbers, texts, tensors, and containers of them.

A checkpoint is read with ``weights_only``, so that one object of another kind would make the whole file unreadable.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

_AS_THEY_ARE = frozenset((type(None), bool, int, float, complex, str, bytes))
_OF_TORCH = ("Tensor", "Size", "dtype", "device")


def portable(value: Any) -> Any:
    """Return a state of which every part can be read back; a number of NumPy's becomes Python's, which is as large.

    Args:
        value: What ``state_dict`` gave.

    Raises:
        TypeError: Something in it is of a kind that cannot.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is dict or kind is OrderedDict:
        return kind((portable(key), portable(one)) for key, one in value.items())
    if kind is list or kind is tuple or kind is set:
        return kind(map(portable, value))
    torch = sys.modules["torch"]
    if kind is torch.nn.Parameter or any(kind is getattr(torch, name) for name in _OF_TORCH):
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        number = value.item()
        if type(number) in _AS_THEY_ARE:
            return number
    raise TypeError(f"it holds a {kind.__module__}.{kind.__qualname__}, which is not read back without running code")
