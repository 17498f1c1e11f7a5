"""LitGPT's configurations for fine-tuning, with the memory that each one took on an A10G."""

from __future__ import annotations

from preflight.plan.validation.litgpt import express

__all__ = ["express"]
