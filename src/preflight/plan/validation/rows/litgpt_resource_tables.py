"""LitGPT's tables of resources: fine-tuning of published models on A100."""

from __future__ import annotations

from preflight.plan.validation.litgpt import express

__all__ = ["express"]
