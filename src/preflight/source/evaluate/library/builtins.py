"""The built-in functions."""

from __future__ import annotations

from preflight.source.evaluate.builtin import collections, numbers, objects, texts
from preflight.source.evaluate.builtin.model import MODEL

__all__ = ["MODEL", "collections", "numbers", "objects", "texts"]
