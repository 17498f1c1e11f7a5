"""Readers of pictures that do not read through Python: missing pictures, and those that the dry run made up."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import after, formats


def install(assume: Callable[[str], None]) -> None:
    """Meet missing pictures of Pillow and of OpenCV.

    Args:
        assume: Is given a line for what took their place.
    """
    after.imported("PIL.Image", lambda module: _pillow(module, assume))
    after.imported("cv2", _opencv)


def _opencv(cv2: Any) -> None:
    plain = cv2.imread

    def imread(filename: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(filename, *args, **kwargs)
        if found is not None or not isinstance(filename, (str, os.PathLike)):
            return found
        try:
            with open(filename, "rb") as file:  # which finds what was written or made up in this run
                content = file.read()
        except OSError:
            return None
        import numpy

        kwargs.pop("dst", None)
        flags = kwargs.get("flags", args[-1] if args else cv2.IMREAD_COLOR)
        return cv2.imdecode(numpy.frombuffer(content, numpy.uint8), flags) if content else None

    cv2.imread = imread


def _pillow(image: Any, assume: Callable[[str], None]) -> None:
    plain = image.open

    def opened(fp: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(fp, *args, **kwargs)
        except FileNotFoundError:
            if not str(fp).lower().endswith(formats.PICTURES):
                raise
            size = (formats.WIDTH, formats.HEIGHT)
            assume(
                f"pictures such as {formats.kin(str(fp))} are missing: black ones of {size[0]} x {size[1]} took their place"
            )
            return image.new("L" if formats.is_mask(str(fp)) else "RGB", size)

    image.open = opened
