"""Normalisations: the input is kept, and little more."""

from __future__ import annotations

from preflight.check.forward.operation import Operation, rule
from preflight.check.forward.tensors import Result


@rule("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "nn.SyncBatchNorm", "nn.InstanceNorm1d", "nn.InstanceNorm2d",
      "nn.InstanceNorm3d", "nn.GroupNorm", "nn.LocalResponseNorm", "instance_norm", "group_norm", "batch_norm")  # fmt: skip
def over_channels(one: Operation) -> Result:
    """Statistics of a batch or of channels: small."""
    source = one.input
    if source is None:
        return None
    layered = one.layer is not None
    if layered or source.graded:
        one.keep(one.first)
    return one.makes(source.shape, graded=source.graded or layered)


@rule("nn.LayerNorm", "nn.RMSNorm", "layer_norm", "rms_norm")
def over_rows(one: Operation) -> Result:
    """A mean and a deviation of every row are kept too."""
    source = one.input
    if source is None or not source.shape:
        return None
    layered = one.layer is not None
    if layered or source.graded:
        one.keep(one.first)
        one.keep_more((1.0 if "rms" in one.name.lower() else 2.0) * source.elements / max(source.shape[-1], 1))
    return one.makes(source.shape, graded=source.graded or layered)


@rule("normalize")
def normalize(one: Operation) -> Result:
    """A quotient by a norm: the input and the norm, spread, are kept."""
    source = one.input
    if source is None:
        return None
    if source.graded:
        one.keep(one.first)
    return one.makes(source.shape)
