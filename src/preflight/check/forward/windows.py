"""Convolutions, pools and what changes the size of an image."""

from __future__ import annotations

import re

from preflight.check.forward.operation import Operation, rule
from preflight.check.forward.tensors import Misfit, Result, Shape
from preflight.source.values import Value, plain

_DIMENSIONS = ("1d", "2d", "3d")


def _named(*stems: str) -> tuple[str, ...]:
    return tuple(stem + dimension for stem in stems for dimension in _DIMENSIONS)


def _rank(one: Operation) -> int:
    found = re.search(r"([123])d$", one.name)
    return int(found.group(1)) if found else 0


def _each(one: Operation, value: Value | None, count: int, default: int | None) -> list[int] | None:
    """Return a size for every dimension, given as one number for all or as one for each."""
    if value is None:
        return [default] * count if default is not None else None
    single = one.forward.size(value)
    if single is not None:
        return [single] * count
    found = one.forward.numbers([value])
    if found is not None and len(found) == 1:
        found = found * count
    return found if found is not None and len(found) == count else None


def window(size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """Positions of a sliding window: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-span // stride) if ceil else span // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:  # the last window begins inside the input or its left padding
        count -= 1
    return count


def _slid(
    one: Operation, sizes: Shape, kernel: Value | None, stride: Value | None, padding: Value | None, dilation: Value | None,
    ceil: bool = False, step_is_kernel: bool = False,
) -> Shape | None:  # fmt: skip
    count = len(sizes)
    kernels = _each(one, kernel, count, None)
    steps = _each(one, stride, count, 1)
    if step_is_kernel and (stride is None or plain(stride, 0) is None):
        steps = kernels
    pads, gaps = _each(one, padding, count, 0), _each(one, dilation, count, 1)
    if padding is not None and plain(padding) == "same":
        return sizes
    if padding is not None and plain(padding) == "valid":
        pads = [0] * count
    if kernels is None or steps is None or pads is None or gaps is None or 0 in steps:
        return None
    found = tuple(window(s, k, t, p, d, ceil) for s, k, t, p, d in zip(sizes, kernels, steps, pads, gaps, strict=True))
    return found if all(size > 0 for size in found) else None


@rule(*_named("nn.Conv"))
def convolution(one: Operation) -> Result:
    """A sliding product: the input is kept for the gradient of the kernel."""
    source, columns, rank = one.input, one.number(1, "out_channels"), _rank(one)
    rows = one.number(0, "in_channels")
    if source is None or columns is None or len(source.shape) not in (rank + 1, rank + 2):
        return None
    channels = source.shape[-rank - 1]
    if rows is not None and rows != channels:
        one.forward.misfit = one.forward.misfit or Misfit(one.value, source.shape, -rank - 1, rows)
        return None
    sizes = _slid(
        one, source.shape[-rank:], one.option(2, "kernel_size"), one.option(3, "stride"), one.option(4, "padding"),
        one.option(5, "dilation"),
    )  # fmt: skip
    if sizes is None:
        return None
    if one.learns:
        one.keep(one.first)
    return one.makes((*source.shape[: -rank - 1], columns, *sizes), graded=True)


@rule(*_named("conv"))
def convolved(one: Operation) -> Result:
    """The same with a given kernel."""
    source, kernel, rank = one.input, one.forward.tensor(one.option(0, "weight")), _rank(one)
    if source is None or kernel is None or len(kernel.shape) != rank + 2 or len(source.shape) != rank + 2:
        return None
    steps = _each(one, one.option(2, "stride"), rank, 1)
    pads, gaps = _each(one, one.option(3, "padding"), rank, 0), _each(one, one.option(4, "dilation"), rank, 1)
    if steps is None or pads is None or gaps is None or 0 in steps:
        return None
    shape = zip(source.shape[-rank:], kernel.shape[2:], steps, pads, gaps, strict=True)
    sizes = tuple(window(*each) for each in shape)
    if kernel.graded:
        one.keep(one.first)
    graded = source.graded or kernel.graded
    return one.makes((source.shape[0], kernel.shape[0], *sizes), graded=graded) if min(sizes) > 0 else None


@rule(*_named("nn.ConvTranspose"))
def transposed(one: Operation) -> Result:
    """Its transpose: (size - 1) stride - 2 padding + dilation (kernel - 1) + output padding + 1."""
    source, columns, rank = one.input, one.number(1, "out_channels"), _rank(one)
    if source is None or columns is None or len(source.shape) not in (rank + 1, rank + 2):
        return None
    given = [
        one.option(place, name)
        for place, name in ((2, "kernel_size"), (3, "stride"), (4, "padding"), (5, "output_padding"), (8, "dilation"))
    ]
    kernel, stride, padding, extra, gap = (
        _each(one, value, rank, default) for value, default in zip(given, (None, 1, 0, 0, 1), strict=True)
    )
    if kernel is None or stride is None or padding is None or extra is None or gap is None:
        return None
    parts = zip(source.shape[-rank:], kernel, stride, padding, extra, gap, strict=True)
    sizes = tuple((size - 1) * s - 2 * p + d * (k - 1) + e + 1 for size, k, s, p, e, d in parts)
    one.keep(one.first)
    return one.makes((*source.shape[: -rank - 1], columns, *sizes), graded=True)


@rule(*_named("nn.MaxPool", "max_pool", "nn.AvgPool", "avg_pool", "nn.LPPool"))
def pool(one: Operation) -> Result:
    """The input is kept; of the largest also where it was found, eight bytes each."""
    source, rank = one.input, _rank(one)
    if source is None or len(source.shape) < rank + 1:
        return None
    largest = "max" in one.name.lower()
    ceil = one.flag(5 if largest and one.layer is not None else 4 if largest else 3, "ceil_mode")
    sizes = _slid(
        one, source.shape[-rank:], one.option(0, "kernel_size"), one.option(1, "stride"), one.option(2, "padding"),
        one.option(3, "dilation") if largest else None, ceil, step_is_kernel=True,
    )  # fmt: skip
    out = one.makes((*source.shape[:-rank], *sizes)) if sizes is not None else None
    if out is not None and out.graded:
        one.keep(one.first)
        one.keep_more(2.0 * out.elements if largest else 0.0)
    return out


@rule(*_named("nn.AdaptiveAvgPool", "nn.AdaptiveMaxPool", "adaptive_avg_pool", "adaptive_max_pool"))
def adaptive(one: Operation) -> Result:
    """A given size: the input is kept, unless it is a mean over everything."""
    source, rank, given = one.input, _rank(one), one.option(0, "output_size")
    if source is None or given is None or len(source.shape) < rank + 1:
        return None
    asked = plain(given)
    listed = list(asked) if isinstance(asked, (list, tuple)) else [asked] * rank
    if len(listed) != rank:
        return None
    wanted = [have if size is None else size for size, have in zip(listed, source.shape[-rank:], strict=True)]
    if not all(isinstance(size, int) for size in wanted):
        return None
    out = one.makes((*source.shape[:-rank], *wanted))
    largest = "max" in one.name.lower()
    if out is not None and out.graded and (largest or any(size != 1 for size in wanted)):
        one.keep(one.first)
        one.keep_more(2.0 * out.elements if largest else 0.0)
    return out


@rule("nn.Upsample", "nn.UpsamplingNearest2d", "nn.UpsamplingBilinear2d", "interpolate", "upsample")
def resized(one: Operation) -> Result:
    """Only sizes are kept."""
    source = one.input
    if source is None or len(source.shape) < 3:
        return None
    rank = len(source.shape) - 2
    given, factor = one.option(0, "size"), plain(one.option(1, "scale_factor"))
    sizes = _each(one, given, rank, None) if given is not None and plain(given, 0) is not None else None
    if sizes is None and isinstance(factor, (int, float)):
        sizes = [int(size * factor) for size in source.shape[2:]]
    elif sizes is None and isinstance(factor, (list, tuple)) and len(factor) == rank:
        sizes = [int(size * by) for size, by in zip(source.shape[2:], factor, strict=True)]
    return one.makes((*source.shape[:2], *sizes)) if sizes is not None else None


@rule("nn.PixelShuffle", "pixel_shuffle")
def shuffled(one: Operation) -> Result:
    """Channels laid out as pixels: a copy, and nothing kept."""
    source, factor = one.input, one.number(0, "upscale_factor")
    if source is None or not factor or len(source.shape) < 3:
        return None
    *front, channels, height, width = source.shape
    return one.makes((*front, channels // factor**2, height * factor, width * factor))


@rule("nn.PixelUnshuffle", "pixel_unshuffle")
def unshuffled(one: Operation) -> Result:
    """Pixels laid out as channels."""
    source, factor = one.input, one.number(0, "downscale_factor")
    if source is None or not factor or len(source.shape) < 3:
        return None
    *front, channels, height, width = source.shape
    return one.makes((*front, channels * factor**2, height // factor, width // factor))


@rule(
    *(
        f"nn.{kind}Pad{rank}d"
        for kind in ("Reflection", "Replication", "Zero", "Constant", "Circular")
        for rank in (1, 2, 3)
    )
)
def padded_layer(one: Operation) -> Result:
    """A border: reflected and repeated ones keep the input."""
    source, rank = one.input, _rank(one)
    given = _each(one, one.option(0, "padding"), 2 * rank, None)
    if source is None or given is None:
        return None
    return _padded(one, given, kept=one.name.startswith(("nn.Reflection", "nn.Replication")))


@rule("pad")
def padded(one: Operation) -> Result:
    """A border, by sizes given from the last dimension on."""
    given = one.option(0, "pad")
    sizes = one.forward.numbers([given]) if given is not None else None
    if sizes is None or len(sizes) % 2:
        return None
    mode = plain(one.option(1, "mode"), "constant")
    return _padded(one, sizes, kept=mode in ("reflect", "replicate"))


def _padded(one: Operation, given: list[int], kept: bool) -> Result:
    source = one.input
    if source is None or len(given) > 2 * len(source.shape):
        return None
    sizes = list(source.shape)
    for place in range(len(given) // 2):
        sizes[-1 - place] += given[2 * place] + given[2 * place + 1]
    out = one.makes(tuple(sizes))
    if kept and out is not None and out.graded:
        one.keep(one.first)
    return out
