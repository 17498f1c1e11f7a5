"""Layers that hold their weights in fewer bits."""

from __future__ import annotations

import torch

from preflight.dryrun.virtual.engine.quantised import Int8Params, Linear4bit, Linear8bitLt, Params4bit

__all__ = ["Int8Params", "Linear4bit", "Linear8bitLt", "LinearFP4", "LinearNF4", "Params4bit", "StableEmbedding"]
LinearNF4 = LinearFP4 = Linear4bit
StableEmbedding = Embedding = torch.nn.Embedding
