"""vTrain's iterations on many nodes."""

from __future__ import annotations

from preflight.plan.validation.vtrain import express

__all__ = ["express"]
