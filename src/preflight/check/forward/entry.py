"""The shape of what a network is given: from tensors that the script makes, its images, or the layer that takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from preflight.check.forward.tensors import Shape
from preflight.source.layers import Leaf, Network
from preflight.source.tensor_shapes import shape_of
from preflight.source.values import Obj, Seq, Value, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def entries(reading: Reading, facts: dict[str, Fact], network: Network, given: Value | None) -> list[Shape]:
    """Return the shapes that one sample of the first input may have, the surest first.

    Args:
        reading: The script.
        facts: What was read of it: image size and sequence length.
        network: The layers of the network.
        given: The first argument of the network's call in the training loop.
    """
    made = _of_tensors(given)
    if made is not None:
        return [made]
    layers = [leaf for leaf in network.leaves if leaf.obj.name.startswith("torch.nn.") and leaf.count]
    if not layers:
        return []
    return [*_patches(facts, network.leaves[0]), *_images(facts, layers), *_sequences(facts, layers[0]), *_rows(layers)]


def _of_tensors(given: Value | None) -> Shape | None:
    """The shape of a sample where the batch, or the data set behind the loader, is a tensor of known sizes."""
    place = 0
    value = settle(given) if given is not None else None
    for _ in range(12):
        if not isinstance(value, Obj):
            return None
        shape = shape_of(value)
        if shape is not None:
            return shape[1:] if len(shape) > 1 else None
        if value.name == "torch.utils.data.TensorDataset" and place < len(value.args):
            value = settle(value.args[place])
            continue
        if value.name == "torch.utils.data.DataLoader":
            held = value.argument(0, "dataset")
            value = settle(held) if held is not None else None
            continue
        if value.kind == "item" and value.args:
            at = plain(value.args[0])
            place = at if isinstance(at, int) and at >= 0 else place
        if value.kind not in ("item", "call") or value.receiver is None:
            return None
        if value.kind == "call" and value.name.lstrip(".") not in ("to", "cuda", "float"):
            return None
        value = settle(value.receiver)
    return None


_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.vstack")
_MOVES = ("to", "cuda", "float", "half", "bfloat16", "contiguous", "detach", "requires_grad_")


def joined_batches(given: Value) -> int | None:
    """Return how many batches a network is given at once: two views of each sample, real and made ones; None where unknown."""
    value = settle(given)
    for _ in range(8):
        if not isinstance(value, Obj) or value.kind != "call":
            return 1
        if value.name in _JOINS:
            listed = settle(value.args[0]) if value.args else None
            dim = plain(value.argument(1, "dim"), 0) if len(value.args) > 1 or "dim" in value.kwargs else 0
            if dim != 0:
                return 1  # beside each other: channels
            if not isinstance(listed, Seq) or listed.open:
                return None
            inner = [joined_batches(item) for item in listed.items]
            return sum(count for count in inner if count is not None) if None not in inner else None
        if value.receiver is None or value.name.lstrip(".") not in _MOVES:
            return 1
        value = settle(value.receiver)
    return 1


def _whole(leaf: Leaf, position: int, name: str) -> int | None:
    found = plain(leaf.obj.argument(position, name))
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def channels_of(network: Network) -> int | None:
    """Return the channels of the images that a network takes: those of its first convolution."""
    return _channels(network.leaves)


def _channels(layers: list[Leaf]) -> int | None:
    convolution = next((leaf for leaf in layers if leaf.obj.name.endswith("nn.Conv2d")), None)
    return _whole(convolution, 0, "in_channels") if convolution is not None else None


def _patches(facts: dict[str, Fact], first: Leaf) -> list[Shape]:
    """Images whose patches the first layer lays out, by names of their axes."""
    size, pattern = facts["image_size"].value, plain(first.obj.argument(0, "pattern"))
    if first.obj.name != "einops.layers.torch.Rearrange" or not isinstance(size, int) or not isinstance(pattern, str):
        return []
    before = re.findall(r"\([^()]*\)|\S+", pattern.partition("->")[0])
    return [(count, size, size) for count in (3, 1)] if len(before) == 4 else []


def _images(facts: dict[str, Fact], layers: list[Leaf]) -> list[Shape]:
    size = facts["image_size"].value
    if not isinstance(size, int):
        return []
    if any(leaf.obj.name.endswith("nn.Conv2d") for leaf in layers):
        channels = _channels(layers)
        # Something may be put beside the picture before the first convolution: labels, a mask.
        counts = [channels, *(count for count in (3, 1) if count < channels)] if channels else []
        return [(count, size, size) for count in counts]
    linear = next((leaf for leaf in layers if leaf.obj.name.endswith("nn.Linear")), None)
    width = _whole(linear, 0, "in_features") if linear is not None else None
    flat: list[Shape] = [(width // size**2, size, size)] if width and width % size**2 == 0 else []
    rows: list[Shape] = (
        [(1, size, size)] if _is_recurrent(layers[0]) and _whole(layers[0], 0, "input_size") == size else []
    )
    return flat + rows


def _sequences(facts: dict[str, Fact], first: Leaf) -> list[Shape]:
    length = facts["sequence_length"].value
    if not isinstance(length, int) or length <= 0:
        return []
    if first.obj.name.endswith("nn.Embedding"):
        return [(length,)]
    width = _whole(first, 0, "input_size" if _is_recurrent(first) else "in_features")
    return [(length, width)] if width else []


def _is_recurrent(leaf: Leaf) -> bool:
    return leaf.obj.name.endswith(("nn.LSTM", "nn.GRU", "nn.RNN"))


def _rows(layers: list[Leaf]) -> list[Shape]:
    """A row of numbers, where the network is products and what works on single numbers all through."""
    if layers[0].obj.name != "torch.nn.Linear" or any(".Conv" in leaf.obj.name for leaf in layers):
        return []
    width = _whole(layers[0], 0, "in_features")
    return [(width,)] if width else []
