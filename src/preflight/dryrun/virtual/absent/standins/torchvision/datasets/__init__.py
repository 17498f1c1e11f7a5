"""Data sets with their published shapes and lengths; every picture is black."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils.data import Dataset

from . import utils as utils

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class _Column:
    """What is worked out whenever it is asked for, until a script puts its own in its place: some of the samples."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.made(instance)


class VisionDataset(Dataset[Any]):
    """Pictures with labels.

    Attributes:
        shape: Mode of PIL, width, height.
        lengths: Pictures for training, for testing.
        count: Classes.
    """

    shape: tuple[str, int, int] = ("RGB", 500, 375)
    lengths: tuple[int, int] = (1_281_167, 50_000)
    count = 1000
    stands_in = True

    def __init__(
        self,
        root: Any = None,
        train: Any = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        split: str | None = None,
        transforms: Any = None,
        **more: Any,
    ) -> None:
        if callable(train):  # of those that are told root and transform only
            train, transform = True, train
        if isinstance(train, str):
            split, train = train, True
        if split is not None:
            train = split in ("train", "unlabeled", "train+unlabeled", "extra", "trainval")
        self.root, self.train, self.split = root, bool(train), split
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms
        self.length = self.lengths[0 if train else 1]
        self.classes = [f"class {i}" for i in range(self.count)]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        if download is True and isinstance(root, (str, os.PathLike)):
            os.makedirs(root, exist_ok=True)  # as a download does: some write what they made of it beside it

    def __len__(self) -> int:
        for name in ("data", "targets", "labels"):
            if name in self.__dict__:
                return len(self.__dict__[name])
        return self.length

    @_Column
    def targets(self) -> Any:
        """Return the labels."""
        return [i % self.count for i in range(self.length)]

    labels = targets

    def target(self, index: int) -> Any:
        """Return a label."""
        kept = self.__dict__.get("targets", self.__dict__.get("labels"))
        return index % self.count if kept is None else kept[index]

    def picture(self, index: int) -> Any:
        """Return a picture of PIL."""
        from PIL import Image

        mode, width, height = self.shape
        return Image.new(mode, (width, height))

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        picture, target = self.picture(index), self.target(index)
        if self.transforms is not None:
            return self.transforms(picture, target)
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, target if self.target_transform is None else self.target_transform(target)


class MNIST(VisionDataset):
    """70,000 digits of 28 x 28."""

    shape, lengths, count = ("L", 28, 28), (60_000, 10_000), 10

    @_Column
    def data(self) -> Any:
        """Return all pictures."""
        return torch.zeros(self.length, 28, 28, dtype=torch.uint8)

    @_Column
    def targets(self) -> Any:
        """Return the labels."""
        return torch.arange(self.length) % self.count

    labels = targets
    train_data = test_data = data
    train_labels = test_labels = targets


class FashionMNIST(MNIST):
    """70,000 pieces of clothing of 28 x 28."""


class KMNIST(MNIST):
    """70,000 characters of 28 x 28."""


class CIFAR10(VisionDataset):
    """60,000 pictures of 32 x 32."""

    shape, lengths, count = ("RGB", 32, 32), (50_000, 10_000), 10

    @_Column
    def data(self) -> Any:
        """Return all pictures."""
        import numpy

        return numpy.zeros((self.length, 32, 32, 3), dtype=numpy.uint8)


class CIFAR100(CIFAR10):
    """60,000 pictures of 32 x 32 in 100 classes."""

    count = 100


class SVHN(VisionDataset):
    """Numbers of houses."""

    shape, lengths, count = ("RGB", 32, 32), (73_257, 26_032), 10


class STL10(VisionDataset):
    """Pictures of 96 x 96."""

    shape, lengths, count = ("RGB", 96, 96), (5_000, 8_000), 10


class CelebA(VisionDataset):
    """Faces with 40 attributes."""

    shape, lengths, count = ("RGB", 178, 218), (162_770, 19_962), 40

    def target(self, index: int) -> Any:
        """Return the attributes."""
        return torch.zeros(40, dtype=torch.int64)


class ImageNet(VisionDataset):
    """Photographs; of the sizes there are, a common one."""


class LSUN(VisionDataset):
    """Photographs of rooms."""

    shape, lengths, count = ("RGB", 341, 256), (3_033_042, 300), 10


class Flowers102(VisionDataset):
    """Photographs of flowers."""

    lengths, count = (1_020, 6_149), 102


class Food101(VisionDataset):
    """Photographs of food."""

    shape, lengths, count = ("RGB", 512, 512), (75_750, 25_250), 101


class OxfordIIITPet(VisionDataset):
    """Photographs of pets."""

    lengths, count = (3_680, 3_669), 37


class VOCSegmentation(VisionDataset):
    """Photographs with a class for each pixel."""

    lengths, count = (1_464, 1_449), 21

    def target(self, index: int) -> Any:
        """Return the classes as a picture."""
        from PIL import Image

        return Image.new("L", self.shape[1:])


class FakeData(VisionDataset):
    """Pictures of any size."""

    stands_in = False

    def __init__(
        self,
        size: int = 1000,
        image_size: Any = (3, 224, 224),
        num_classes: int = 10,
        transform: Any = None,
        *more: Any,
        **also: Any,
    ) -> None:
        super().__init__(None, True, transform)
        self.length, self.count = size, num_classes
        self.shape = ("RGB" if image_size[0] == 3 else "L", image_size[2], image_size[1])


def default_loader(path: Any) -> Any:
    """Return a picture from a file."""
    from PIL import Image

    return Image.open(path).convert("RGB")


pil_loader = default_loader


class DatasetFolder(VisionDataset):
    """A folder for each class; where there is none, as many as ImageNet has."""

    def __init__(self, root: Any, *args: Any, transform: Any = None, **kwargs: Any) -> None:
        if args and callable(args[0]):
            transform = args[0]
        super().__init__(root, True, transform, kwargs.get("target_transform"))
        self.loader = default_loader
        self.imgs = self.samples = self.found(os.fspath(root))
        self.stands_in = not self.samples
        if self.samples:
            self.length = len(self.samples)
            self.count = 1 + max(target for _, target in self.samples)
            self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        else:
            from preflight.dryrun.virtual.absent.missing import assume

            assume(f"no pictures in {os.fspath(root)}: as many and of as many classes as ImageNet, of 500 x 375")
            self.imgs = self.samples = [(os.path.join(os.fspath(root), f"{i}.jpg"), i % 1000) for i in range(10_000)]
            self.length = 1_281_167

    def found(self, root: str) -> list[tuple[str, int]]:
        """Return the files and their labels."""
        if not os.path.isdir(root):
            return []
        folders = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
        return [
            (os.path.join(root, folder, name), label)
            for label, folder in enumerate(folders)
            for name in sorted(os.listdir(os.path.join(root, folder)))
            if name.lower().endswith(IMG_EXTENSIONS)
        ]

    @property
    def targets(self) -> Any:
        """Return the labels."""
        return [label for _, label in self.samples]

    def picture(self, index: int) -> Any:
        """Return a picture from its file, or a black one."""
        path = self.samples[index % len(self.samples)][0]
        return self.loader(path) if os.path.exists(path) else super().picture(index)


class ImageFolder(DatasetFolder):
    """Pictures in folders."""


from .coco import CocoCaptions as CocoCaptions  # noqa: E402  (after the class that it is made of)
from .coco import CocoDetection as CocoDetection  # noqa: E402
