"""Operators of detection whose sizes do not hang on numbers."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.absent import drawn

from .misc import FrozenBatchNorm2d as FrozenBatchNorm2d

_LAYERS = drawn.module_of("torchvision", "ops")
if _LAYERS is not None:
    StochasticDepth, SqueezeExcitation = _LAYERS.StochasticDepth, _LAYERS.SqueezeExcitation


def box_area(boxes: Any) -> Any:
    """Return the area of boxes (N, 4)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(one: Any, other: Any) -> Any:
    """Return intersection over union of all pairs: (N, M)."""
    low = torch.max(one[:, None, :2], other[:, :2])
    high = torch.min(one[:, None, 2:], other[:, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    return shared / (box_area(one)[:, None] + box_area(other) - shared)


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """Return the boxes by score: none of them taken to cover another one of its class."""
    return scores.argsort(descending=True)


def clip_boxes_to_image(boxes: Any, size: tuple[int, int]) -> Any:
    """Return boxes (N, 4) that end at the edges of a picture."""
    across, down = boxes[..., 0::2].clamp(0, size[1]), boxes[..., 1::2].clamp(0, size[0])
    return torch.stack((across, down), dim=boxes.dim()).reshape(boxes.shape)


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Return the boxes by score: none of them taken to cover another."""
    return scores.argsort(descending=True)
