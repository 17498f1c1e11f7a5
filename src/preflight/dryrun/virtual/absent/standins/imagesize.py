"""Sizes of pictures, in the place of imagesize; Pillow reads them."""

from __future__ import annotations

from typing import Any

__version__ = "1.4.1"


def get(filepath: Any) -> tuple[int, int]:
    """Return width and height; -1 and -1 where it is no picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(filepath) as picture:
            width, height = picture.size
            return int(width), int(height)
    except UnidentifiedImageError:
        return -1, -1
