"""Small tools for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def tiny(x: Any) -> Any:
    """Return the smallest number of a type."""
    kind = np.asarray(x).dtype
    return np.finfo(kind if kind.kind in "fc" else np.float32).tiny


def pad_center(data: Any, size: int = 0, axis: int = -1, **more: Any) -> Any:
    """Return an array with zeros on both sides."""
    missing = size - data.shape[axis]
    widths = [(0, 0)] * data.ndim
    widths[axis] = (missing // 2, missing - missing // 2)
    return np.pad(data, widths, **more)


def fix_length(data: Any, size: int = 0, axis: int = -1, **more: Any) -> Any:
    """Return an array of a length."""
    data = data.take(range(min(size, data.shape[axis])), axis=axis)
    widths = [(0, 0)] * data.ndim
    widths[axis] = (0, size - data.shape[axis])
    return np.pad(data, widths, **more)


def normalize(S: Any, norm: Any = np.inf, axis: int = 0, **_: Any) -> Any:
    """Return an array whose largest number is one."""
    if norm is None:
        return S
    most = np.max(np.abs(S), axis=axis, keepdims=True) if norm == np.inf else np.linalg.norm(S, norm, axis, True)
    return S / np.where(most < tiny(S), 1, most)
