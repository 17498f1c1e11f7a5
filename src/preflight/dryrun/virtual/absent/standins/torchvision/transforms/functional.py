"""Functions on one picture (of PIL) or tensor (channels, height, width)."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch


class InterpolationMode(Enum):
    """How a picture is resampled."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def pil_to_tensor(picture: Any) -> Any:
    """Return a picture's bytes as a tensor (channels, height, width)."""
    if isinstance(picture, torch.Tensor):
        return picture
    import numpy

    array = numpy.array(picture)
    array = array[:, :, None] if array.ndim == 2 else array
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def to_tensor(picture: Any) -> Any:
    """Return a picture as a tensor of numbers between 0 and 1."""
    if isinstance(picture, torch.Tensor):
        return picture
    made = pil_to_tensor(picture)
    return made.to(torch.get_default_dtype()).div(255) if made.dtype == torch.uint8 else made


def to_pil_image(tensor: Any, mode: Any = None) -> Any:
    """Return a tensor or an array as a picture."""
    from PIL import Image

    shape = tuple(tensor.shape)
    if isinstance(tensor, torch.Tensor):
        shape = (*shape[-2:], shape[0]) if len(shape) > 2 else shape
    return Image.new("L" if len(shape) < 3 or shape[2] == 1 else "RGB", (shape[1], shape[0]))


def size_of(picture: Any) -> tuple[int, int]:
    """Return height and width."""
    if isinstance(picture, torch.Tensor):
        return int(picture.shape[-2]), int(picture.shape[-1])
    return picture.size[1], picture.size[0]


def get_image_size(picture: Any) -> list[int]:
    """Return width and height."""
    return list(size_of(picture)[::-1])


def get_image_num_channels(picture: Any) -> int:
    """Return the number of channels."""
    return int(picture.shape[-3]) if isinstance(picture, torch.Tensor) else len(picture.getbands())


def get_dimensions(picture: Any) -> list[int]:
    """Return channels, height and width."""
    return [get_image_num_channels(picture), *size_of(picture)]


def wanted_size(picture: Any, size: Any) -> tuple[int, int]:
    """Return height and width after a resize: of both sides, or of the shorter one."""
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return int(size[0]), int(size[1])
    short = int(size[0] if isinstance(size, (list, tuple)) else size)
    height, width = size_of(picture)
    if height <= width:
        return short, int(short * width / height)
    return int(short * height / width), short


def resize(picture: Any, size: Any, interpolation: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the picture in another size."""
    height, width = wanted_size(picture, size)
    if isinstance(picture, torch.Tensor):
        return picture.new_zeros((*picture.shape[:-2], height, width))
    return picture.resize((width, height))


def crop(picture: Any, top: int, left: int, height: int, width: int) -> Any:
    """Return a part of the picture."""
    if isinstance(picture, torch.Tensor):
        return picture.new_zeros((*picture.shape[:-2], height, width))
    return picture.crop((left, top, left + width, top + height))


def center_crop(picture: Any, size: Any) -> Any:
    """Return the middle."""
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return crop(picture, 0, 0, int(height), int(width))


def resized_crop(
    picture: Any, top: int, left: int, height: int, width: int, size: Any, *args: Any, **kwargs: Any
) -> Any:
    """Return a part of the picture in another size."""
    return resize(crop(picture, top, left, height, width), size)


def pad(picture: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Return the picture with a border."""
    sides = [padding] * 4 if isinstance(padding, int) else list(padding) * (4 // len(padding))
    height, width = size_of(picture)
    return crop(picture, 0, 0, height + sides[1] + sides[3], width + sides[0] + sides[2])


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """Return the tensor with other mean and deviation."""
    shape = (-1, 1, 1)
    means = torch.as_tensor(mean, dtype=tensor.dtype, device=tensor.device).view(shape)
    return tensor.sub(means).div(torch.as_tensor(std, dtype=tensor.dtype, device=tensor.device).view(shape))


def _unchanged(picture: Any, *args: Any, **kwargs: Any) -> Any:
    return picture


hflip = vflip = rotate = affine = gaussian_blur = adjust_brightness = adjust_contrast = adjust_saturation = _unchanged
adjust_hue = adjust_gamma = adjust_sharpness = autocontrast = equalize = invert = posterize = solarize = erase = (
    _unchanged
)


def to_grayscale(picture: Any, num_output_channels: int = 1) -> Any:
    """Return the picture without colour."""
    if isinstance(picture, torch.Tensor):
        return picture[..., :1, :, :].expand(*picture.shape[:-3], num_output_channels, *picture.shape[-2:])
    return picture.convert("L") if num_output_channels == 1 else picture.convert("L").convert("RGB")


rgb_to_grayscale = to_grayscale
