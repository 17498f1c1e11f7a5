"""Partitioned weights: whole here."""

from __future__ import annotations

import contextlib
from typing import Any


class Init(contextlib.nullcontext):  # type: ignore[type-arg]
    """Makes a model whole."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


GatheredParameters = Init
