"""Boxes."""

from __future__ import annotations

from . import batched_nms as batched_nms
from . import box_area as box_area
from . import box_iou as box_iou
from . import clip_boxes_to_image as clip_boxes_to_image
from . import nms as nms
