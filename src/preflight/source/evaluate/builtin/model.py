"""The handlers of the built-in functions."""

from __future__ import annotations

from typing import Any

from preflight.source.evaluate.library import Model

MODEL = Model()
MISSING: Any = object()
