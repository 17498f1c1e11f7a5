"""Fused norms."""

from __future__ import annotations

from torch.nn import LayerNorm, RMSNorm

FusedLayerNorm, MixedFusedLayerNorm = LayerNorm, LayerNorm
FusedRMSNorm, MixedFusedRMSNorm = RMSNorm, RMSNorm
