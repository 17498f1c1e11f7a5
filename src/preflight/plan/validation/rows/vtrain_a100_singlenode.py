"""vTrain's iterations on one node."""

from __future__ import annotations

from preflight.plan.validation.vtrain import express

__all__ = ["express"]
