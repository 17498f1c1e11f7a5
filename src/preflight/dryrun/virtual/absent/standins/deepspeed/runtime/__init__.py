"""Parts of the engine."""

from __future__ import annotations

from . import zero as zero
