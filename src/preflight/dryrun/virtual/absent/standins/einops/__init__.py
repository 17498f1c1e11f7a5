"""Tensors by the names of their axes, in the place of einops: the same operators as its torch and NumPy backends call."""

from __future__ import annotations

import math
from typing import Any

__version__ = "0.8.0"
_REST = "..."


class EinopsError(RuntimeError):
    """A pattern that does not fit."""


def _groups(side: str, mark: str) -> list[list[str]]:
    """Return the axes of one side of a pattern, those in brackets together; an axis of size 1 has no name."""
    found: list[list[str]] = []
    inside = False
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", f" {_REST} ").split():
        if word in "()":
            inside = word == "("
            if inside:
                found.append([])
            continue
        # An axis without a name is another one on each side.
        names = [] if word == "1" else [f"{word}@{mark}{len(found)}" if word.isdigit() else word]
        if inside:
            found[-1] += names
        else:
            found.append(names)
    return found


def _spread(groups: list[list[str]], count: int) -> list[list[str]]:
    """Write the axes that ``...`` stands for."""
    rest = [f"{_REST}{place}" for place in range(count)]
    out: list[list[str]] = []
    for group in groups:
        if group == [_REST]:
            out += [[name] for name in rest]
        else:
            out.append([name for one in group for name in (rest if one == _REST else [one])])
    return out


def _sizes(left: list[list[str]], shape: Any, given: dict[str, int], pattern: str) -> dict[str, int]:
    """Return the size of every axis of the left side."""
    if len(left) != len(shape):
        raise EinopsError(
            f"Wrong shape: expected {len(left)} dims. Received {len(shape)}-dim tensor, pattern {pattern!r}"
        )
    sizes = dict(given)
    for group, length in zip(left, shape, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1:
            raise EinopsError(f"Could not infer sizes for {set(unknown)}, pattern {pattern!r}")
        if unknown:
            if length % known:
                raise EinopsError(
                    f"Shape mismatch, can't divide axis of length {length} in chunks of {known}, {pattern!r}"
                )
            sizes[unknown[0]] = length // known
        elif known != length:
            raise EinopsError(f"Shape mismatch, {length} != {known}, pattern {pattern!r}")
    return sizes


def _stacked(tensor: Any) -> Any:
    if not isinstance(tensor, (list, tuple)):
        return tensor
    if hasattr(tensor[0], "new_empty"):
        import torch

        return torch.stack(tuple(tensor))
    import numpy

    return numpy.stack(tensor)


def reduce(tensor: Any, pattern: str, reduction: Any, **axes_lengths: int) -> Any:
    """Return a tensor with its axes in another order, put together, taken apart, reduced or repeated.

    Args:
        tensor: A tensor, an array, or a list of them.
        pattern: The axes before and after.
        reduction: ``mean``, ``sum``, ``max``, ``min``, ``prod``, a function, or ``rearrange`` or ``repeat``.
        axes_lengths: Sizes of axes.
    """
    tensor = _stacked(tensor)
    before, arrow, after = pattern.partition("->")
    left, right = _groups(before, "left"), _groups(after, "right")
    if not arrow:
        raise EinopsError(f"no -> in pattern {pattern!r}")
    count = len(tensor.shape) - len(left) + 1 if [_REST] in left else 0
    left, right = _spread(left, count), _spread(right, count)
    numbers = {name: int(name.partition("@")[0]) for group in left + right for name in group if "@" in name}
    sizes = _sizes(left, tensor.shape, {**axes_lengths, **numbers}, pattern)
    have, want = [name for group in left for name in group], [name for group in right for name in group]
    _look(have, want, reduction, sizes, pattern)
    made = tensor.reshape([sizes[name] for name in have])
    gone = [place for place, name in enumerate(have) if name not in want]
    if gone:
        made = _reduced(made, reduction, tuple(gone))
        have = [name for name in have if name in want]
    order = [have.index(name) for name in want if name in have]
    if order != sorted(order):
        made = made.permute(order) if hasattr(made, "permute") else made.transpose(order)
    new = [place for place, name in enumerate(want) if name not in have]
    if new:
        made = _repeated(made, new, [sizes[name] for name in want])
    return made.reshape([math.prod(sizes[name] for name in group) for group in right])


def _look(have: list[str], want: list[str], reduction: Any, sizes: dict[str, int], pattern: str) -> None:
    """Refuse what einops refuses."""
    lost, new = set(have) - set(want), [name for name in want if name not in have]
    if (reduction == "rearrange" and (lost or new)) or (reduction == "repeat" and lost):
        raise EinopsError(
            f"Identifiers only on one side of expression (should be on both): {lost or set(new)}, {pattern!r}"
        )
    if any(name not in sizes for name in new):
        raise EinopsError(f"Specify sizes for new axes in repeat, pattern {pattern!r}")
    if len(set(want)) < len(want) or len(set(have)) < len(have):
        raise EinopsError(f"an axis appears twice in pattern {pattern!r}")


def _reduced(made: Any, reduction: Any, places: tuple[int, ...]) -> Any:
    if callable(reduction):
        return reduction(made, places)
    if not hasattr(made, "new_empty"):
        return getattr(made, reduction)(axis=places)
    if reduction in ("max", "min"):
        return getattr(made, f"a{reduction}")(dim=places)
    if reduction in ("mean", "sum"):
        return getattr(made, reduction)(dim=places)
    if reduction not in ("prod", "any", "all"):
        raise EinopsError(f"Unknown reduction {reduction!r}")
    for place in sorted(places, reverse=True):
        made = getattr(made, reduction)(dim=place)
    return made


def _repeated(made: Any, places: list[int], sizes: list[int]) -> Any:
    if hasattr(made, "new_empty"):
        for place in places:
            made = made.unsqueeze(place)
        return made.expand(sizes)
    import numpy

    return numpy.broadcast_to(numpy.expand_dims(made, tuple(places)), sizes)


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """Return a tensor with its axes in another order, put together or taken apart."""
    return reduce(tensor, pattern, "rearrange", **axes_lengths)


def repeat(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """Return a tensor with its axes in another order, or repeated along new ones."""
    return reduce(tensor, pattern, "repeat", **axes_lengths)


def parse_shape(x: Any, pattern: str) -> dict[str, int]:
    """Return the sizes of the axes that a pattern names."""
    return {name: size for name, size in zip(pattern.split(), x.shape, strict=True) if name not in ("_", "1")}


def asnumpy(tensor: Any) -> Any:
    """Return an array."""
    return tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else tensor


def einsum(*tensors_and_pattern: Any) -> Any:
    """Return a sum of products; axes may have names of several letters."""
    import torch

    *tensors, pattern = tensors_and_pattern
    letters: dict[str, str] = {}

    def short(side: str) -> str:
        words = side.replace("...", f" {_REST} ").split()
        return "".join(w if w == _REST else letters.setdefault(w, chr(97 + len(letters) % 26)) for w in words)

    before, _, after = pattern.partition("->")
    return torch.einsum(",".join(map(short, before.split(","))) + "->" + short(after), *tensors)


def pack(tensors: Any, pattern: str) -> tuple[Any, list[Any]]:
    """Return tensors in one along ``*``, and their shapes there."""
    import torch

    words = pattern.split()
    place, behind = words.index("*"), len(words) - words.index("*") - 1
    shapes, flat = [], []
    for tensor in tensors:
        end = len(tensor.shape) - behind
        shapes.append(tensor.shape[place:end])
        flat.append(tensor.reshape([*tensor.shape[:place], math.prod(tensor.shape[place:end]), *tensor.shape[end:]]))
    return torch.cat(flat, dim=place), shapes


def unpack(tensor: Any, packed_shapes: Any, pattern: str) -> list[Any]:
    """Return the tensors that were packed."""
    place = pattern.split().index("*")
    lengths = [math.prod(shape) for shape in packed_shapes]
    if -1 in (length for shape in packed_shapes for length in shape):
        at = next(i for i, shape in enumerate(packed_shapes) if -1 in shape)
        lengths[at] = tensor.shape[place] - sum(length for i, length in enumerate(lengths) if i != at)
    parts = tensor.split(lengths, dim=place)
    return [
        part.reshape([*tensor.shape[:place], *shape, *tensor.shape[place + 1 :]])
        for part, shape in zip(parts, packed_shapes, strict=True)
    ]
