"""States of partitioned weights."""

from __future__ import annotations

from enum import Enum


class ZeroParamStatus(Enum):
    """Where a weight is."""

    AVAILABLE = 1
    NOT_AVAILABLE = 2
    INFLIGHT = 3
