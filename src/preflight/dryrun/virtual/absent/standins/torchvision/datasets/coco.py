"""Pictures with boxes or sentences in COCO's form, which pycocotools reads."""

from __future__ import annotations

import os
from typing import Any

from . import VisionDataset


class CocoDetection(VisionDataset):
    """Pictures with boxes."""

    stands_in = False

    def __init__(
        self, root: Any, annFile: str, transform: Any = None, target_transform: Any = None, transforms: Any = None
    ) -> None:
        import importlib

        read = importlib.import_module("pycocotools.coco").COCO

        super().__init__(root, True, transform, target_transform, transforms=transforms)
        self.coco = read(annFile)
        self.ids = sorted(self.coco.imgs.keys())
        self.length = len(self.ids)

    def picture(self, index: int) -> Any:
        """Return a picture of PIL."""
        from PIL import Image

        return Image.open(os.path.join(self.root, self.coco.loadImgs(self.ids[index])[0]["file_name"])).convert("RGB")

    def target(self, index: int) -> Any:
        """Return what is noted of a picture."""
        return self.coco.loadAnns(self.coco.getAnnIds(self.ids[index]))


class CocoCaptions(CocoDetection):
    """Pictures with sentences."""

    def target(self, index: int) -> Any:
        """Return the sentences of a picture."""
        return [note["caption"] for note in super().target(index)]
