"""Data sets of torchtext by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class _Items(torch.utils.data.Dataset[Any]):
    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]


def to_map_style_dataset(iter_data: Iterable[Any]) -> _Items:
    """Return a data set whose items have numbers."""
    return _Items(iter_data)
