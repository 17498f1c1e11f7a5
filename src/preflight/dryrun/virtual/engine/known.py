"""Numbers of small tensors on the virtual GPU: lengths, indices, masks, counters, schedules.

What a script decides by them then goes as it would on a real GPU. A tensor is known while everything that went into it
is: it came from the host, was made by a factory, or was computed from known ones. The numbers lie in a storage of the
host of the same layout, one for each storage on the GPU, so that views and changes in place need no care of their own.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch

from preflight.dryrun.virtual import private

Fake = private.fake_class()
FLOATS, WHOLE = 1 << 16, 1 << 21
"""Bytes of the largest storage whose numbers are kept: floating-point numbers, and integers and truth values."""
UNKNOWN = object()
SHAPED = frozenset(
    "nonzero masked_select _unique _unique2 unique_dim unique_consecutive bincount repeat_interleave equal _ctc_loss "
    "_local_scalar_dense is_nonzero nonzero_static index index_put index_put_ histogram combinations".split()
)
"""Operators whose result's shape, or whose answer to the host, hangs on numbers."""
_FILLS = frozenset("fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ copy_ eye_".split())
_OVERFLOWS = "_amp_foreach_non_finite_check_and_unscale_"
_NOTHING = frozenset("empty empty_like empty_strided new_empty new_empty_strided resize_ set_".split())


class Known:
    """The storages on the GPU whose numbers are known."""

    def __init__(self) -> None:
        self._hosts: dict[int, tuple[Any, Any]] = {}

    def get(self, tensor: Any) -> Any:
        """Return a tensor of the host with the numbers of one on the GPU, sharing what that shares; or None."""
        found = self._hosts.get(tensor.untyped_storage()._cdata) if private.has_storage(tensor) else None
        if found is None or tensor.is_conj() or tensor.is_neg():
            return None
        try:
            return _over(found[1], tensor)
        except RuntimeError:  # the storage has grown
            return None

    def put(self, tensor: Any, real: Any) -> None:
        """Keep the numbers of a tensor that fills its storage, where it is small."""
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        if not 0 < size <= (FLOATS if floating else WHOLE) or tensor.layout is not torch.strided:
            return
        if tuple(real.shape) != tuple(tensor.shape) or real.layout is not torch.strided:
            return
        key = storage._cdata
        host = torch.UntypedStorage(size)
        _over(host, tensor).copy_(real)
        self._hosts[key] = (weakref.ref(storage, lambda _: self._hosts.pop(key, None)), host)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator gives on the host, or UNKNOWN; what it changes in place is changed."""
        given = {}
        if any(not isinstance(t, Fake) and t.numel() > WHOLE for t in _tensors(args, kwargs)):
            return UNKNOWN
        for tensor in _tensors(args, kwargs):
            if isinstance(tensor, Fake):
                real = given[id(tensor)] = self.get(tensor)
                if real is None:
                    return UNKNOWN
        args, kwargs = private.map_tensors(Fake, lambda t: given[id(t)], (args, kwargs))
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            return UNKNOWN  # the host lacks the operator, or the error is told of where the shapes are worked out

    def follow(self, name: str, func: Any, args: Any, kwargs: Any, fakes: list[Any], result: Any) -> None:
        """Work out the numbers of what an operator gave, or forget what it changed."""
        writes = _written(func)
        if (
            name in _FILLS
            and isinstance(args[0], Fake)
            and self._hosts.get(args[0].untyped_storage()._cdata) is None
            and _fills(args[0])
        ):
            self.put(args[0], torch.zeros(tuple(args[0].shape), dtype=args[0].dtype))
        if name in _NOTHING or not (_stored(result) and _stored(fakes)) or (not writes and not _small(result)):
            return
        if not writes and any(t.untyped_storage()._cdata not in self._hosts for t in fakes):
            return
        # That a first scaled loss overflows hangs on noise: a dry run takes the step that the script means to take.
        real = UNKNOWN if name == _OVERFLOWS else self.run(func, args, kwargs)
        if real is UNKNOWN and writes:
            self._forget(func, args, kwargs)
        elif real is not UNKNOWN and not writes:
            self.take(result, real, fakes)

    def take(self, result: Any, real: Any, fakes: list[Any]) -> None:
        """Keep numbers that were worked out; a view has them already."""
        old = {t.untyped_storage()._cdata for t in fakes}
        several = isinstance(result, (list, tuple))
        for fake, number in zip(result, real, strict=False) if several else ((result, real),):
            pair = isinstance(fake, Fake) and isinstance(number, torch.Tensor)
            if pair and fake.untyped_storage()._cdata not in old:
                self.put(fake, number)

    def _forget(self, func: Any, args: Any, kwargs: Any) -> None:
        places, names = _written(func) or ((), ())
        changed = [args[at] for at in places if at < len(args)] + [kwargs.get(name) for name in names]
        for tensor in _tensors(changed, {}):
            if isinstance(tensor, Fake):
                self._hosts.pop(tensor.untyped_storage()._cdata, None)

    def forget(self, tensor: Any) -> None:
        """Drop the numbers of a tensor that something unknown writes to."""
        if private.has_storage(tensor):
            self._hosts.pop(tensor.untyped_storage()._cdata, None)

    def gathered(self, tensor: Any, source: Any, factor: int) -> None:
        """What other ranks send is taken to be what this one has."""
        real = self.get(source) if isinstance(source, Fake) else source
        self._hosts.pop(tensor.untyped_storage()._cdata, None)
        if real is None or not real.numel() or not _fills(tensor) or not _small(tensor):
            return
        flat = real.reshape(-1).repeat(-(-tensor.numel() // real.numel()))[: tensor.numel()]
        self.put(tensor, flat.reshape(tensor.shape) * factor)


def _tensors(args: Any, kwargs: Any) -> list[Any]:
    return [leaf for leaf in private.leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]


def _over(host: Any, tensor: Any) -> Any:
    return torch.empty(0, dtype=tensor.dtype).set_(host, tensor.storage_offset(), tensor.size(), tensor.stride())


def _fills(tensor: Any) -> bool:
    return bool(tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes())


def _stored(result: Any) -> bool:
    parts = result if isinstance(result, (list, tuple)) else (result,)
    return all(not isinstance(t, Fake) or private.has_storage(t) for t in parts)


def _small(result: Any) -> bool:
    parts = result if isinstance(result, (list, tuple)) else (result,)
    return all(
        not isinstance(t, Fake) or not private.has_storage(t) or t.untyped_storage().nbytes() <= WHOLE for t in parts
    )


@functools.cache
def _written(func: Any) -> tuple[tuple[int, ...], tuple[str, ...]] | tuple[()]:
    """Return the places and the names of the arguments that an operator changes; nothing where it changes none."""
    changed = [
        (at, argument.name)
        for at, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return (tuple(at for at, _ in changed), tuple(name for _, name in changed)) if changed else ()
