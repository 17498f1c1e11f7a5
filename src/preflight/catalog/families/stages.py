"""Image networks in stages, each with fewer places and more channels: ResNet, ConvNeXt, Swin."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from preflight.catalog.families.counted import Builder, Config, Counted, linear
from preflight.errors import InputError
from preflight.vocabulary.model import ModelFamily, ModelSpec

_REASON = "what its stages keep for the backward pass is counted for the networks of torchvision and timm only"


def numbers(config: Config, key: str, default: list[int]) -> list[int]:
    """Return one whole number of at least 1 for each stage."""
    value = config.values.get(key)
    if value is None:
        return default
    if not isinstance(value, list) or not all(type(v) is int and v >= 1 for v in value):
        raise InputError(f"model configuration: {key} is not a list of whole numbers: {value!r}")
    return value


def _counted(
    config: Config, family: ModelFamily, widths: list[int], depths: list[int], base: int, block: int, **more: Any
) -> Counted:
    if len(widths) != len(depths):
        raise InputError(f"model configuration: {len(widths)} widths for {len(depths)} stages")
    spec = ModelSpec(
        family=family,
        layers=sum(depths),
        activation=config.word("hidden_act", "relu" if family == "cnn" else "gelu"),
        channels=config.count("num_channels", 3),
        activation_reason=None if "activation_elements" in more else _REASON,
        **more,
    )
    heads = {"none": 0, "image-classification": linear(widths[-1], config.labels())}
    return Counted(spec=spec, base=base, heads=heads, default_head="image-classification", block=block)


def resnet(config: Config) -> Counted:
    """Count ResNet: three convolutions a block (bottleneck) or two (basic), a projection where the width changes."""
    widths, depths = numbers(config, "hidden_sizes", [256, 512, 1024, 2048]), numbers(config, "depths", [3, 4, 6, 3])
    stem = config.count("embedding_size", 64)
    narrow = config.word("layer_type", "bottleneck") == "bottleneck"
    early = config.flag("downsample_in_bottleneck", False)  # the stride of a bottleneck is that of its first matrix
    flow = _Convolutions(config.count("num_channels", 3), 2 if config.word("hidden_act", "relu") == "relu" else 3)
    flow.kept = flow.channels * _SIDE**2  # the picture, which the first convolution keeps
    flow.convolve(stem, 7, stride=2)
    flow.pool()
    largest = 0
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=False)):
        for layer in range(depth):
            stride = 2 if layer == 0 and (stage > 0 or config.flag("downsample_in_first_stage", False)) else 1
            before = flow.parameters
            if flow.channels != width or stride > 1:
                flow.beside(width, stride)
            if narrow:
                flow.convolve(width // 4, 1, stride if early else 1)
                flow.convolve(width // 4, 3, 1 if early else stride)
                flow.convolve(width, 1)
            else:
                flow.convolve(width, 3, stride)
                flow.convolve(width, 3)
            largest = max(largest, flow.parameters - before)
    labels = config.labels()
    kept, products = flow.kept + flow.channels, flow.products + flow.channels * labels
    return _counted(
        config, "cnn", widths, depths, flow.parameters, largest, norm="batchnorm", image_size=_SIDE,
        activation_elements=float(kept), forward_flops=2.0 * products,
    )  # fmt: skip


_SIDE = 224
"""The side of the pictures for which activations and work are counted; for others they are scaled with the area."""


class _Convolutions:
    """A chain of convolutions without biases, each with a batch norm and an activation behind it or behind a sum.

    A batch norm keeps what the convolution made, the next convolution what the activation made; an activation other than
    ReLU keeps what it is given, too.

    Attributes:
        channels: Of what the chain has made so far.
        side: Of what the chain has made so far.
        parameters: Of the layers so far.
        kept: Elements that autograd keeps of one picture.
        products: Multiplications for one picture.
    """

    def __init__(self, channels: int, tensors: int) -> None:
        """Begin with a picture; so many tensors are kept of a convolution, its norm and the activation behind."""
        self.channels, self.side, self._tensors = channels, _SIDE, tensors
        self.parameters = self.kept = self.products = 0

    def convolve(self, width: int, kernel: int, stride: int = 1) -> None:
        """Add a convolution, its norm and the activation behind."""
        self._convolution(width, kernel, stride, self._tensors)
        self.channels, self.side = width, -(-self.side // stride)

    def beside(self, width: int, stride: int) -> None:
        """Add the projection of what goes around a block, behind which no activation stands."""
        self._convolution(width, 1, stride, 1)

    def pool(self) -> None:
        """Halve the sides: what is largest in each window is kept, and where it stood."""
        self.side = -(-self.side // 2)
        self.kept += 2 * self.channels * self.side**2

    def _convolution(self, width: int, kernel: int, stride: int, kept: int) -> None:
        places, weights = (-(-self.side // stride)) ** 2, self.channels * width * kernel**2
        self.parameters += weights + 2 * width
        self.products += weights * places
        self.kept += kept * width * places


def convnext(config: Config) -> Counted:
    """Count ConvNeXt: a 7 x 7 convolution of each channel alone, then two matrices of four times the width."""
    widths, depths = numbers(config, "hidden_sizes", [96, 192, 384, 768]), numbers(config, "depths", [3, 3, 9, 3])
    patch = config.count("patch_size", 4)
    scaled = config.ratio("layer_scale_init_value", 1e-6) > 0
    base = linear(config.count("num_channels", 3) * patch * patch, widths[0]) + 2 * widths[0] + 2 * widths[-1]
    base += sum(2 * before + linear(4 * before, width) for before, width in pairwise(widths))
    blocks = [50 * w + 2 * w + linear(w, 4 * w) + linear(4 * w, w) + (w if scaled else 0) for w in widths]
    base += sum(depth * block for depth, block in zip(depths, blocks, strict=False))
    return _counted(config, "cnn", widths, depths, base, max(blocks), norm="layernorm", patch_size=patch)


def swin(config: Config) -> Counted:
    """Count Swin: attention within windows with a table of relative positions, patches merged four to one."""
    depths, heads = numbers(config, "depths", [2, 2, 6, 2]), numbers(config, "num_heads", [3, 6, 12, 24])
    first = config.count("embed_dim", 96)
    widths = [first * 2**stage for stage in range(len(depths))]
    if len(heads) != len(depths):
        raise InputError(f"model configuration: num_heads has {len(heads)} stages, depths {len(depths)}")
    height, width_of_image = config.side("image_size", 224)
    patch, across = config.side("patch_size", 4)
    window, ratio = config.count("window_size", 7), config.ratio("mlp_ratio", 4.0)
    bias = config.flag("qkv_bias", True)
    base = linear(patch * across * config.count("num_channels", 3), first) + 2 * first + 2 * widths[-1]
    base += (
        (height // patch) * (width_of_image // across) * first if config.flag("use_absolute_embeddings", False) else 0
    )
    base += sum(4 * before * width + 8 * before for before, width in pairwise(widths))
    blocks = []
    for width, count in zip(widths, heads, strict=True):
        inner = int(ratio * width)
        block = 3 * linear(width, width, bias) + linear(width, width) + (2 * window - 1) ** 2 * count
        blocks.append(block + linear(width, inner) + linear(inner, width) + 4 * width)
    base += sum(depth * block for depth, block in zip(depths, blocks, strict=True))
    more = {"norm": "layernorm", "image_size": height, "patch_size": patch, "bias": bias}
    return _counted(config, "other", widths, depths, base, max(blocks), **more)


BUILDERS: dict[str, Builder] = {"resnet": resnet, "convnext": convnext, "swin": swin}
