"""The same numbers in another order or in other pieces."""

from __future__ import annotations

import math

from preflight.check.forward.named_axes import rearranged
from preflight.check.forward.operation import Operation, axis, rule
from preflight.check.forward.tensors import Result, Tensor
from preflight.source.tensor_shapes import filled, repeated
from preflight.source.values import Known, Obj, Seq, Value, plain, settle


@rule("view", "reshape")
def view(one: Operation) -> Result:
    """Another shape of the same memory."""
    source = one.input
    if source is None or one.value.open_args:
        return None
    given = one.rest() or [v for v in (one.value.kwargs.get("shape"), one.value.kwargs.get("size")) if v is not None]
    sizes = one.forward.numbers(given)
    return one.views(filled(sizes, source.elements) if sizes is not None else None)


@rule("view_as", "reshape_as", "expand_as")
def like(one: Operation) -> Result:
    """The shape of another tensor."""
    other = one.forward.tensor(one.option(0, "other"))
    return one.views(other.shape) if other is not None else None


@rule("flatten", "nn.Flatten", "ravel")
def flatten(one: Operation) -> Result:
    """Dimensions put together."""
    source = one.input
    if source is None:
        return None
    rank = len(source.shape)
    first = axis(one.number(0, "start_dim", int(one.name == "nn.Flatten")) or 0, rank)
    given = one.number(1, "end_dim", -1)
    last = axis(given, rank) if given is not None else None
    if first is None or last is None or last < first:
        return None
    return one.views((*source.shape[:first], math.prod(source.shape[first : last + 1]), *source.shape[last + 1 :]))


@rule("unflatten", "nn.Unflatten")
def unflatten(one: Operation) -> Result:
    """One dimension parted."""
    source, dim, sizes = one.input, one.number(0, "dim"), one.option(1, "sizes") or one.option(1, "unflattened_size")
    if source is None or dim is None or sizes is None:
        return None
    at = axis(dim, len(source.shape))
    numbers = one.forward.numbers([sizes])
    parts = filled(numbers, source.shape[at]) if at is not None and numbers is not None else None
    return one.views((*source.shape[:at], *parts, *source.shape[at + 1 :])) if parts and at is not None else None


@rule("squeeze", "squeeze_")
def squeeze(one: Operation) -> Result:
    """Dimensions of one element left out."""
    source = one.input
    if source is None:
        return None
    if one.option(0, "dim") is None:
        return one.views(tuple(size for size in source.shape if size != 1))
    dim = one.number(0, "dim")
    at = axis(dim, len(source.shape)) if dim is not None else None
    if at is None:
        return None
    return one.views(source.shape if source.shape[at] != 1 else (*source.shape[:at], *source.shape[at + 1 :]))


@rule("unsqueeze")
def unsqueeze(one: Operation) -> Result:
    """A dimension of one element put in."""
    source, dim = one.input, one.number(0, "dim")
    if source is None or dim is None:
        return None
    at = axis(dim, len(source.shape) + 1)
    return one.views((*source.shape[:at], 1, *source.shape[at:])) if at is not None else None


@rule("permute")
def permute(one: Operation) -> Result:
    """Dimensions in another order."""
    source = one.input
    if one.value.name.startswith("einops"):
        return _by_names(one)
    order = one.forward.numbers(one.rest() or [v for v in (one.value.kwargs.get("dims"),) if v is not None])
    if source is None or order is None:
        return None
    places = [axis(dim, len(source.shape)) for dim in order]
    if sorted(p for p in places if p is not None) != list(range(len(source.shape))):
        return None
    return one.views(tuple(source.shape[p] for p in places if p is not None))


@rule("model:einops.layers.torch.Rearrange", "einops.repeat")
def _by_names(one: Operation) -> Result:
    """Axes by name: other memory where their order changes, which is taken for granted."""
    told_by, place = (one.layer, 0) if one.layer is not None else (one.value, 1)
    source, pattern = one.input, plain(told_by.argument(place, "pattern"))
    sizes = {name: one.forward.size(value) for name, value in told_by.kwargs.items() if name not in _NO_AXES}
    told = {name: size for name, size in sizes.items() if size is not None}
    if source is None or not isinstance(pattern, str) or len(told) < len(sizes):
        return None
    return one.makes(rearranged(source.shape, pattern, told))


_NO_AXES = ("pattern", "reduction", "tensor")


@rule("einops.reduce")
def _taken_together(one: Operation) -> Result:
    """Axes that are summed or averaged away: nothing is kept for that."""
    how = plain(one.value.argument(2, "reduction"))
    return _by_names(one) if how in ("mean", "sum") else None


@rule("transpose", "swapaxes", "transpose_", "swapdims", "movedim", "moveaxis")
def transpose(one: Operation) -> Result:
    """Two dimensions exchanged."""
    source, first, second = one.input, one.number(0, "dim0"), one.number(1, "dim1")
    if source is None or first is None or second is None:
        return None
    a, b = axis(first, len(source.shape)), axis(second, len(source.shape))
    if a is None or b is None:
        return None
    sizes = list(source.shape)
    if one.name in ("movedim", "moveaxis"):
        sizes.insert(b, sizes.pop(a))
    else:
        sizes[a], sizes[b] = sizes[b], sizes[a]
    return one.views(tuple(sizes))


@rule("t", "T", "mT", "mH", "H")
def turned(one: Operation) -> Result:
    """The last two dimensions exchanged."""
    source = one.input
    if source is None or len(source.shape) < 2 or (one.name in ("t", "T") and len(source.shape) != 2):
        return None
    return one.views((*source.shape[:-2], source.shape[-1], source.shape[-2]))


@rule("contiguous")
def contiguous(one: Operation) -> Result:
    """A copy, where the memory lies in another order: behind a change of dimensions."""
    source = one.input
    if source is None:
        return None
    before = settle(one.first) if one.first is not None else None
    moved = isinstance(before, Obj) and before.name.lstrip(".").rpartition(".")[2] in (
        "transpose",
        "permute",
        "t",
        "T",
        "mT",
    )
    return one.makes(source.shape) if moved else one.views(source.shape)


@rule("expand")
def expand(one: Operation) -> Result:
    """Dimensions of one element repeated without a copy."""
    source, sizes = one.input, one.forward.numbers(one.rest()) if not one.value.open_args else None
    if source is None or sizes is None or len(sizes) < len(source.shape):
        return None
    behind = (1,) * (len(sizes) - len(source.shape)) + source.shape
    return one.views(tuple(have if want == -1 else want for want, have in zip(sizes, behind, strict=True)))


@rule("repeat", "tile")
def repeat(one: Operation) -> Result:
    """A copy, several times."""
    source, times = one.input, one.forward.numbers(one.rest()) if not one.value.open_args else None
    return one.makes(repeated(source.shape, times)) if source is not None and times is not None else None


@rule("repeat_interleave")
def repeat_interleave(one: Operation) -> Result:
    """Every element of a dimension several times."""
    source, times, dim = one.input, one.number(0, "repeats"), one.number(1, "dim")
    at = axis(dim, len(source.shape)) if source is not None and dim is not None else None
    if source is None or times is None or at is None:
        return None
    return one.makes((*source.shape[:at], source.shape[at] * times, *source.shape[at + 1 :]))


@rule("chunk", "split", "tensor_split", "unbind")
def parts(one: Operation) -> Result:
    """Pieces along a dimension, in the same memory."""
    source = one.input
    if source is None:
        return None
    dim = one.number(0 if one.name == "unbind" else 1, "dim", 0)
    at = axis(dim, len(source.shape)) if dim is not None else None
    if at is None:
        return None
    whole, before, behind = source.shape[at], source.shape[:at], source.shape[at + 1 :]
    if one.name == "unbind":
        return tuple(one.views((*before, *behind)) for _ in range(whole)) if whole <= 512 else None
    given = one.option(0, "chunks") or one.option(0, "split_size_or_sections") or one.option(0, "split_size")
    sizes = one.forward.numbers([given]) if given is not None and isinstance(settle(given), Seq) else None
    if sizes is None:
        count = one.forward.size(given)
        if not count or count < 0:
            return None
        step = -(-whole // count) if one.name != "split" else count
        if not step or whole // step > 4096:
            return None
        sizes = [min(step, whole - start) for start in range(0, whole, step)]
    return tuple(one.views((*before, size, *behind)) for size in sizes)


@rule("narrow")
def narrow(one: Operation) -> Result:
    """A piece of a dimension."""
    source, dim, length = one.input, one.number(0, "dim"), one.number(2, "length")
    at = axis(dim, len(source.shape)) if source is not None and dim is not None else None
    if source is None or at is None or length is None:
        return None
    return one.views((*source.shape[:at], length, *source.shape[at + 1 :]))


@rule("select")
def select(one: Operation) -> Result:
    """One element of a dimension."""
    source, dim = one.input, one.number(0, "dim")
    at = axis(dim, len(source.shape)) if source is not None and dim is not None else None
    return one.views((*source.shape[:at], *source.shape[at + 1 :])) if source is not None and at is not None else None


@rule("cat", "concat", "concatenate", "hstack")
def cat(one: Operation) -> Result:
    """Tensors one behind the other: new memory, and nothing kept."""
    given = _listed(one)
    dim = one.number(0, "dim", 1 if one.name == "hstack" else 0)
    if not given or dim is None:
        return None
    at = axis(dim, len(given[0].shape))
    if at is None or any(len(tensor.shape) != len(given[0].shape) for tensor in given):
        return None
    first = given[0].shape
    total = sum(tensor.shape[at] for tensor in given)
    return one.makes((*first[:at], total, *first[at + 1 :]), graded=any(tensor.graded for tensor in given))


@rule("stack")
def stack(one: Operation) -> Result:
    """Tensors along a new dimension."""
    given, dim = _listed(one), one.number(0, "dim", 0)
    if not given or dim is None:
        return None
    at = axis(dim, len(given[0].shape) + 1)
    if at is None:
        return None
    first = given[0].shape
    return one.makes((*first[:at], len(given), *first[at:]), graded=any(tensor.graded for tensor in given))


def _listed(one: Operation) -> list[Tensor] | None:
    first = one.value.args[0] if one.value.args else one.value.kwargs.get("tensors")
    held = settle(first) if first is not None else None
    if not isinstance(held, Seq):
        several = one.forward.result(held) if held is not None else None
        found = list(several) if isinstance(several, tuple) else []
    else:
        found = [one.forward.tensor(item) for item in held.items] if not held.open else []
    tensors = [tensor for tensor in found if isinstance(tensor, Tensor)]
    return tensors if tensors and len(tensors) == len(found) else None


@rule("[]")
def item(one: Operation) -> Result:
    """A part of a tensor, in the same memory; or one of several results."""
    if one.value.receiver is None or not one.value.args:
        return None
    held = one.forward.result(one.value.receiver)
    key = settle(one.value.args[0])
    if isinstance(held, tuple):
        at = plain(key)
        return held[at] if isinstance(at, int) and -len(held) <= at < len(held) else None
    if held is None:
        return None
    keys = list(key.items) if isinstance(key, Seq) and key.kind == "tuple" else [key]
    return _indexed(one, held, keys)


def _indexed(one: Operation, held: Tensor, keys: list[Value]) -> Result:
    settled = [settle(key) for key in keys]
    plain_keys = sum(1 for key in settled if not (isinstance(key, Known) and key.value in (None, Ellipsis)))
    out: list[int] = []
    place, copied = 0, False
    for key in settled:
        if isinstance(key, Known) and key.value is None:
            out.append(1)
            continue
        if isinstance(key, Known) and key.value is Ellipsis:
            jump = len(held.shape) - plain_keys
            out += held.shape[place : place + jump]
            place += jump
            continue
        if place >= len(held.shape):
            return None
        if isinstance(key, Obj) and key.name == "slice":
            size = _sliced(one, key, held.shape[place])
            if size is None:
                return None
            out.append(size)
        elif one.forward.size(key) is None:
            index = one.forward.tensor(key)
            if index is None or copied:
                return None
            out += index.shape
            copied = True
        place += 1
    shape = (*out, *held.shape[place:])
    if copied:
        return one.makes(shape, graded=held.graded)
    return Tensor(shape, held.graded and one.recorded, held.storage)


def _sliced(one: Operation, cut: Obj, size: int) -> int | None:
    bounds: list[int | None] = []
    for arg in (*cut.args, Known(None), Known(None), Known(None))[:3]:
        found = settle(arg)
        if isinstance(found, Known) and found.value is None:
            bounds.append(None)
            continue
        number = one.forward.size(found)
        if number is None:
            return None
        bounds.append(number)
    return len(range(*slice(*bounds).indices(size))) if bounds[2] != 0 else None
