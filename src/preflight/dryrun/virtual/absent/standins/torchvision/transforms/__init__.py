"""Transforms: the size, the type and the number of channels change as they should; what only changes numbers does nothing."""

from __future__ import annotations

import random
from typing import Any

import torch

from . import functional
from .functional import InterpolationMode as InterpolationMode
from .functional import size_of


class Compose:
    """One after the other."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        """Apply all."""
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class _Transform(torch.nn.Module):
    """One that keeps what it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.given, self.named = args, kwargs
        for name, value in kwargs.items():
            setattr(self, name, value)

    def forward(self, picture: Any) -> Any:
        """Leave size and type as they are."""
        return picture


class _Sized(_Transform):
    def __init__(self, size: Any = 224, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.size = size
        self.interpolation = kwargs.get("interpolation", InterpolationMode.BILINEAR)

    def both(self) -> tuple[int, int]:
        """Return height and width."""
        if isinstance(self.size, int):
            return self.size, self.size
        return int(self.size[0]), int(self.size[-1])


class Resize(_Sized):
    """Another size."""

    def forward(self, picture: Any) -> Any:
        """Resize."""
        return functional.resize(picture, self.size)


Scale = Resize


class CenterCrop(_Sized):
    """The middle."""

    def forward(self, picture: Any) -> Any:
        """Crop."""
        return functional.center_crop(picture, self.both())


class RandomCrop(CenterCrop):
    """Any part of a size."""

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return the part at the corner: top, left, height, width."""
        height, width = output_size
        return 0, 0, height, width


class RandomResizedCrop(_Sized):
    """Any part, resized."""

    @staticmethod
    def get_params(picture: Any, scale: Any = None, ratio: Any = None) -> tuple[int, int, int, int]:
        """Return the whole: top, left, height, width."""
        return (0, 0, *size_of(picture))

    def forward(self, picture: Any) -> Any:
        """Resize."""
        return functional.resize(picture, self.both())


class FiveCrop(_Sized):
    """The corners and the middle."""

    def forward(self, picture: Any) -> Any:
        """Crop five times."""
        return tuple(functional.center_crop(picture, self.both()) for _ in range(5))


class Pad(_Transform):
    """A border."""

    def forward(self, picture: Any) -> Any:
        """Pad."""
        return functional.pad(picture, self.given[0] if self.given else self.named["padding"])


class ToTensor:
    """A picture as a tensor between 0 and 1."""

    def __call__(self, picture: Any) -> Any:
        """Convert."""
        return functional.to_tensor(picture)


class PILToTensor:
    """A picture as a tensor of bytes."""

    def __call__(self, picture: Any) -> Any:
        """Convert."""
        return functional.pil_to_tensor(picture)


class ToPILImage:
    """A tensor as a picture."""

    def __init__(self, mode: Any = None) -> None:
        self.mode = mode

    def __call__(self, tensor: Any) -> Any:
        """Convert."""
        return functional.to_pil_image(tensor)


class Normalize(_Transform):
    """Another mean and deviation."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, tensor: Any) -> Any:
        """Normalise."""
        return functional.normalize(tensor, self.mean, self.std)


class ConvertImageDtype(_Transform):
    """Another type."""

    def forward(self, tensor: Any) -> Any:
        """Convert."""
        return tensor.to(self.given[0] if self.given else self.named["dtype"])


class Lambda:
    """A function of the script."""

    def __init__(self, lambd: Any) -> None:
        self.lambd = lambd

    def __call__(self, picture: Any) -> Any:
        """Call it."""
        return self.lambd(picture)


class Grayscale(_Transform):
    """Without colour."""

    def forward(self, picture: Any) -> Any:
        """Convert."""
        return functional.to_grayscale(picture, *self.given, **self.named)


class RandomApply(_Transform):
    """Some transforms, or none."""

    def forward(self, picture: Any) -> Any:
        """Apply them all: they are to keep the size."""
        for transform in self.given[0] if self.given else self.named["transforms"]:
            picture = transform(picture)
        return picture


class RandomChoice(RandomApply):
    """One of some."""

    def forward(self, picture: Any) -> Any:
        """Apply one."""
        return random.choice(self.given[0])(picture)


class RandomErasing(_Transform):
    """A part is overwritten."""


class RandomHorizontalFlip(_Transform):
    """Left is right."""


class RandomVerticalFlip(_Transform):
    """Up is down."""


class RandomRotation(_Transform):
    """Turned."""


class RandomAffine(_Transform):
    """Turned, moved, sheared."""


class RandomPerspective(_Transform):
    """Seen from elsewhere."""


class RandomGrayscale(_Transform):
    """Perhaps without colour, with as many channels."""


class ColorJitter(_Transform):
    """Other colours."""


class GaussianBlur(_Transform):
    """Less sharp."""


class RandAugment(_Transform):
    """Some changes of colour and place."""


class AutoAugment(_Transform):
    """Changes that were learned."""


class TrivialAugmentWide(_Transform):
    """One change."""


class RandomSolarize(_Transform):
    """Bright is dark."""


class AutoAugmentPolicy:
    """Which changes."""

    IMAGENET, CIFAR10, SVHN = "imagenet", "cifar10", "svhn"
