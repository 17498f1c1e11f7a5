"""Partitioned weights."""

from __future__ import annotations

from . import partition_parameters as partition_parameters
