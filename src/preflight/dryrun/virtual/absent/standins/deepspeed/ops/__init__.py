"""Fused operators."""

from __future__ import annotations

from . import adam as adam
