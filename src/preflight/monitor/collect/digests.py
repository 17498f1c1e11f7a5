"""Rows about tensors that pass by: shape, dtype, norm, and for the input of a model a fingerprint of its beginning and end."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

from .columns import TABLES
from .copied import copied
from .digest import samples
from .entry import Entry
from .pending import Pending, to_host
from .plain import DEVICES, Outside, apart, impossible, parts, simple
from .recorder import Recorder

_MOST = 8
_DEPTH = 4
_IN = tuple(f"in{position}" for position in range(_MOST))
_OUT = tuple(f"out{position}" for position in range(_MOST))
_NORM = list(TABLES["tensor"]).index("norm")
_EVALUATED = 2  # passes of an evaluation whose inputs are measured
_KNOWN = frozenset((float, type(None)))
_NOTHING: tuple[Any, int, Any] = (None, 0, None)
_DOT = range(1 << 13, 1 << 24)
"""Elements of a tensor whose norm a product with itself gives sooner: it adds up as fast as memory can be read."""


def tensors_in(value: Any, tensor: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """The tensors in nested tuples, lists, dictionaries and plain result objects, in order."""
    if isinstance(value, tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one, tensor, depth - 1)
    elif depth and isinstance(value, dict):
        for one in list(value.values()):
            yield from tensors_in(one, tensor, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name, None), tensor, depth - 1)


def few(value: Any, tensor: Any) -> list[Any]:
    """The first few tensors in a value; a nested one is none, as its rows differ in length and it has no shape."""
    if isinstance(value, tensor):
        return [] if value.is_nested else [value]
    found: list[Any] = []
    if type(value) is tuple and len(value) <= _MOST:  # as what a module is given always is, and often what it gives
        for one in value:
            if isinstance(one, tensor):
                if not one.is_nested:
                    found.append(one)
            elif one is not None:
                break
        else:
            return found
        found.clear()
    for one in tensors_in(value, tensor):
        if not one.is_nested:
            found.append(one)
        if len(found) == _MOST:
            break
    return found


def dtype_of(tensor: Any) -> str:
    """The dtype without ``torch.``."""
    return str(tensor.dtype)[6:]


def _kinds(torch: Any) -> dict[Any, Any]:
    """What norms are taken of, and what they are added up in where that is another kind."""
    return {
        **dict.fromkeys((torch.float32, torch.float64)),
        **dict.fromkeys((torch.bfloat16, torch.float16), torch.float32),
    }


class AtOnce:
    """Norms of the tensors that nearly all are: on a CPU taken and read at once, on a GPU only begun.

    On a CPU a tensor's product with itself is added up twice as fast as its norm, and no guards are needed where nothing
    is switched on that they would keep off.
    """

    __slots__ = ("_asked", "_dot", "_grad", "_kinds", "_norm", "_set_grad", "_strided", "_tensor", "_usual")

    def __init__(self, torch: Any) -> None:
        inner = torch._C

        def always() -> bool:
            return True

        # Looked up once: it is asked for every tensor that passes by.
        self._tensor, self._strided = torch.Tensor, torch.strided
        self._usual = frozenset((torch.float32, torch.float64))
        self._kinds = _kinds(torch)
        self._norm, self._dot = torch.linalg.vector_norm, torch.dot
        self._grad, self._set_grad = torch.is_grad_enabled, inner._set_grad_enabled
        asked = ("_len_torch_dispatch_stack", "_len_torch_function_stack", "_is_any_autocast_enabled")
        self._asked = tuple(getattr(inner, name, always) for name in asked)

    def norm(self, tensor: Any) -> Any:
        """The norm of a tensor, NaN where it is not finite; None where it is to be taken in another way.

        Of a tensor on a GPU it is a tensor without dimensions there, to be read when it has come.
        """
        if type(tensor) is not self._tensor:
            return None
        kind, here = tensor.dtype, tensor.is_cpu
        if kind not in self._usual if here else not (tensor.is_cuda and kind in self._kinds):
            return None
        count = tensor.numel()
        if not count or tensor.layout is not self._strided or tensor.is_neg() or tensor.is_nested:
            return None
        dispatching, overriding, casting = self._asked
        if dispatching() or overriding() or casting():
            return None
        recording = self._grad()
        if recording:
            self._set_grad(False)
        try:
            if not here:
                return self._norm(tensor, dtype=self._kinds[kind])
            if count == 1:  # what a loss is
                size = abs(tensor.item())
            elif count in _DOT and tensor.is_contiguous():
                flat = tensor.view(-1)
                size = math.sqrt(self._dot(flat, flat).item())
            else:
                size = self._norm(tensor).item()
        finally:
            if recording:
                self._set_grad(True)
        return size if math.isfinite(size) else math.nan


class Digests:
    """Takes digests of tensors that pass by and hands over their rows."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        torch = recorder.torch
        self._tensor = torch.Tensor
        self._kinds = _kinds(torch)
        self._words: dict[Any, str] = {}
        self._at_once = AtOnce(torch)
        self._gathered: list[tuple[Any, ...]] = []
        self._wanted = recorder.wants("tensor")
        self._sized = recorder.wants("norms of outputs")  # nothing else costs as much where a model has many parts
        self._last = _NOTHING
        self._evaluated = (-1, 0)  # the iteration of the last evaluation, and how many passes it had

    def beginning(self, entry: Entry, args: Any) -> None:
        """Gather rows of what goes into a model, and take its fingerprints."""
        found = few(args, self._tensor)
        if found:
            self.batch(f"forward:{entry.object}", found, None)
        if self._wanted:
            wanted = found and (self.recorder.detail or self._evaluation(entry))
            sizes = self._norms(found) if wanted else [None] * len(found)
            for position, tensor in enumerate(found):
                self._gather(entry.number, entry.object, _IN[position], tensor, sizes[position])

    def _evaluation(self, entry: Entry) -> bool:
        """Whether a pass is one of the first of an evaluation: few of them are in a detailed iteration."""
        if (entry.args or {}).get("training", True) or not entry.context.startswith("nograd"):
            return False
        iteration = self.recorder.iteration
        count = self._evaluated[1] if self._evaluated[0] == iteration else 0
        self._evaluated = (iteration, count + 1)
        return count < _EVALUATED

    def entering(self, number: int, name: str, args: Any) -> None:
        """Gather rows of what goes into a part: it has come out of another one, and its norm is taken there."""
        if not self._wanted:
            return
        if len(args) == 1 and type(args[0]) is self._tensor:  # as nearly all are given
            self._gather(number, name, _IN[0], args[0], None)
            return
        for position, tensor in zip(_IN, few(args, self._tensor), strict=False):
            self._gather(number, name, position, tensor, None)

    def leaving(self, number: int, name: str, value: Any) -> None:
        """Gather rows of what comes out of a module, and start the norms where they are wanted."""
        if not self._wanted:
            return
        if type(value) is self._tensor:  # as nearly all give
            size = self._size(value) if self._sized else None
            self._gather(number, name, _OUT[0], value, size)
            return
        found = few(value, self._tensor)
        if found:
            sizes = self._norms(found) if self._sized else [None] * len(found)
            for position, tensor, size in zip(_OUT, found, sizes, strict=False):
                self._gather(number, name, position, tensor, size)

    def _gather(self, call: int, name: str, position: str, tensor: Any, size: Any) -> None:
        if tensor.is_nested:
            return  # its rows differ in length, so that it has no shape
        recorder = self.recorder
        kind = tensor.dtype
        words = self._words
        word = words.get(kind)
        if word is None:
            word = words[kind] = dtype_of(tensor)
        where = "cpu"
        if not tensor.is_cpu:  # to ask for a device makes an object each time
            device = tensor.device
            where = words.get(device) or words.setdefault(device, str(device))
        self._gathered.append((
            recorder.number(), recorder.iteration, recorder.step, call, name, position, word, [*tensor.shape],
            where, size, tensor.requires_grad,
        ))  # fmt: skip

    def _size(self, tensor: Any) -> Any:
        """Start the norm of one tensor, as ``_norms`` does."""
        last, version, size = self._last
        if last is not None and last() is tensor and version == tensor._version:
            return size  # a container gives what its last part gave
        if tensor.dtype not in self._kinds:
            return None  # words and labels have no norm
        if apart(self.recorder.torch):
            return None
        size = self._at_once.norm(tensor)
        if size is None:
            return self._taken(tensor, self._guarded([tensor]))[0]
        self._last = _NOTHING if tensor.is_inference() else (weakref.ref(tensor), tensor._version, size)
        return size

    def _norms(self, found: list[Any]) -> list[Any]:
        """Start the norms: each a number, or a tensor without dimensions on its device, or None where there is none."""
        if len(found) == 1:
            return [self._size(found[0])]
        if apart(self.recorder.torch):
            return [None] * len(found)
        at_once = [self._at_once.norm(tensor) for tensor in found]
        return self._taken(found[-1], self._guarded(found) if any(one is None for one in at_once) else at_once)

    def _guarded(self, found: list[Any]) -> list[Any]:
        """The norms of tensors of any kind, past what the program has switched on."""
        torch = self.recorder.torch
        sizes: list[Any] = []
        with Outside(torch):
            for tensor in found:
                if tensor.dtype not in self._kinds:
                    sizes.append(None)
                    continue
                plain = (tensor,) if tensor.device.type in DEVICES and simple(tensor) else parts(torch, tensor)
                if plain is None or len(plain) != 1 or not plain[0].numel():
                    sizes.append(None)
                else:
                    sizes.append(torch.linalg.vector_norm(plain[0], dtype=self._kinds[tensor.dtype]))
        return sizes

    def _taken(self, last: Any, sizes: list[Any]) -> list[Any]:
        """Remember what was taken last; of an inference tensor nobody counts how often it was written to."""
        self._last = _NOTHING if last.is_inference() else (weakref.ref(last), last._version, sizes[-1])
        return sizes

    def hand_over(self) -> None:
        """Hand over the rows that were gathered, all their norms read at once."""
        self._last = _NOTHING
        if not self._gathered:
            return
        rows, self._gathered = self._gathered, []
        awaited = [(place, row[_NORM]) for place, row in enumerate(rows) if type(row[_NORM]) not in _KNOWN]
        if not awaited:
            self.recorder.put_all("tensor", rows)
            return
        torch = self.recorder.torch
        by_device: dict[Any, list[tuple[int, Any]]] = {}
        for place, size in awaited:
            by_device.setdefault(size.device, []).append((place, size))
        reads: list[Any] = []
        places: list[int] = []
        if not impossible(torch):
            places = [place for own in by_device.values() for place, _ in own]
            with Outside(torch):
                reads = [to_host(torch, _stacked(torch, [size for _, size in own])) for own in by_device.values()]
        pending = Pending(reads, lambda read: _filled(rows, places, read))
        self.recorder.later(pending, lambda values: [("tensor", row) for row in values])

    def batch(self, loader: str, found: list[Any], where: dict[str, Any] | None) -> None:
        """Hand over a row that identifies a batch."""
        recorder = self.recorder
        if not found or not recorder.wants("batch"):
            return
        known = where or {}
        head = (recorder.number(), recorder.iteration, recorder.step, loader, known.get("fetch"), known.get("epoch"))
        size = len(found[0]) if found and found[0].dim() else None
        shapes = [list(tensor.shape) for tensor in found]
        dtypes = [dtype_of(tensor) for tensor in found]
        indices = known.get("indices")
        copy = copied(recorder.torch, found) if recorder.may_copy() else None

        def rows(bits: list[int | None]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("batch", (*head, size, indices, list(bits) if copy is None else copy, shapes, dtypes))]

        if copy is not None and copy.here and recorder.nothing_waits():
            recorder.put("batch", (*head, size, indices, copy, shapes, dtypes))
        else:
            recorder.later(samples(found) if copy is None else copy.coming, rows)


def _stacked(torch: Any, sizes: list[Any]) -> Any:
    """The norms of one device as one vector."""
    kind = torch.float32
    return torch.stack([size if size.dtype is kind else size.to(kind) for size in sizes])


def _filled(rows: list[tuple[Any, ...]], places: list[int], read: list[list[float]]) -> list[tuple[Any, ...]]:
    """The rows, with the numbers that were read at their places; what could not be read is not known."""
    rows = [row if type(row[_NORM]) in _KNOWN else (*row[:_NORM], None, *row[_NORM + 1 :]) for row in rows]
    for place, number in zip(places, (number for numbers in read for number in numbers), strict=True):
        row = rows[place]
        rows[place] = (*row[:_NORM], number if math.isfinite(number) else math.nan, *row[_NORM + 1 :])
    return rows
