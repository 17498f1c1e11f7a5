"""Boxes."""

from __future__ import annotations

from . import box_area as box_area
from . import box_iou as box_iou
from . import nms as nms
