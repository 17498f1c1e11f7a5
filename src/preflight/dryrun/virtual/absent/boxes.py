"""Files beside pictures that say what is on them, in the forms that readers of the field agree on."""

from __future__ import annotations

import json
import os
from typing import Any

from preflight.dryrun.virtual.absent import formats

_BOXES = 3
"""Objects of a picture."""
_PICTURES = 256
_CLASSES = 80
"""Of COCO."""


def of_picture(path: str, made: set[str]) -> str | None:
    """Return the lines of a text that lies beside a picture which was made up, or None.

    Darknet's form, which detectors share: folders ``labels`` mirror folders ``images``; a line is a class and a box, as
    shares of the picture.

    Args:
        path: The text's path.
        made: The folders that were made up.
    """
    whole = os.path.abspath(path)
    parts = whole.split(os.sep)
    if "labels" not in parts or not whole.endswith(".txt"):
        return None
    place = len(parts) - 1 - parts[::-1].index("labels")
    twin = os.path.dirname(os.sep.join([*parts[:place], "images", *parts[place + 1 :]]))
    if not any(twin == folder or twin.startswith(folder + os.sep) for folder in made):
        return None
    return "".join(f"{number} 0.{3 + number} 0.{4 + number} 0.2 0.3\n" for number in range(_BOXES))


def coco() -> str:
    """Return a document in COCO's form: pictures, boxes with outlines on each, 80 classes, a sentence for each picture."""
    pictures: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for number in range(1, _PICTURES + 1):
        pictures.append(
            {"id": number, "file_name": f"{number:012d}.jpg", "width": formats.WIDTH, "height": formats.HEIGHT}
        )
        for box in range(_BOXES):
            left, top, wide, high = 20.0 + 60 * box, 30.0 + 40 * box, 120.0, 90.0
            outline = [left, top, left + wide, top, left + wide, top + high, left, top + high]
            notes.append(
                {
                    "id": len(notes) + 1,
                    "image_id": number,
                    "category_id": 1 + len(notes) % _CLASSES,
                    "bbox": [left, top, wide, high],
                    "area": wide * high,
                    "iscrowd": 0,
                    "segmentation": [outline],
                    "num_keypoints": 0,
                    "keypoints": [0] * 51,
                    "caption": formats.words(10, number).strip(),
                }
            )
    classes = [{"id": number, "name": f"class {number}", "supercategory": "thing"} for number in range(1, _CLASSES + 1)]
    return json.dumps({"info": {}, "licenses": [], "images": pictures, "annotations": notes, "categories": classes})
