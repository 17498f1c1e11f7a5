"""Looks that cost little: whether the samples of a batch are one and the same, and what an evaluation writes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, simple

Mark = tuple[Any, int, int]
Marks = tuple[dict[str, Mark], dict[str, Any]]
"""Of each parameter its mark, and copies of numbers of those that were written to before."""

_LEAST = 4  # samples of a batch
_MOST = 1 << 16  # elements that are compared
_FIRST = 32  # evaluation passes of a model that are all looked at
_EVERY = 16  # of the later ones
_SUSPECTS = 8  # parameters of a model whose numbers are compared
_PATIENCE = 8  # passes after which one whose numbers stay is not compared any more
_SAMPLE = 1 << 16  # numbers of a parameter that are compared
_ROUNDED = 4.0  # of the smallest step between numbers: what computing the same again may change


def alike(torch: Any, tensors: Sequence[Any]) -> list[int] | None:
    """Of which tensors all samples are one and the same; None where no tensor could be looked at.

    Looked at are tensors of the processor with several numbers for each of several samples.
    Of most the first two samples differ, and no more is compared.
    """
    chosen = [
        (position, tensor)
        for position, tensor in enumerate(tensors)
        if tensor.dim() > 1 and tensor.device.type == "cpu" and simple(tensor)
        if len(tensor) >= _LEAST and 2 * len(tensor) <= tensor.numel() <= _MOST
    ]
    if not chosen or impossible(torch):
        return None
    with Outside(torch):
        return [
            position
            for position, tensor in chosen
            if torch.equal(tensor[0], tensor[1]) and bool((tensor == tensor[:1]).all()) and not _even(tensor[0])
        ]


def _even(sample: Any) -> bool:
    """Whether a sample holds one number over and over, as a mask does that masks nothing."""
    return bool((sample == sample.reshape(-1)[0]).all())


def all_given(module: Any, count: int) -> bool:
    """Whether so many arguments by position are all that a forward pass can have got: hooks do not see those by name."""
    forward = getattr(type(module), "forward", None)  # a compiled script has none
    code = getattr(getattr(forward, "__wrapped__", forward), "__code__", None)
    if code is None or code.co_flags & 0x08 or code.co_kwonlyargcount:  # it takes others by name
        return False
    return bool(code.co_argcount - 1 <= count)


class Untouched:
    """Tells which parameters a forward pass in evaluation has changed, and which buffers of the program's own layers.

    That one was written to, as torch counts it, or lies elsewhere says that it may have been: layers lay their weights
    out anew, or put the same numbers where they were. Of such parameters some numbers are compared in the passes that
    follow.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._passes: dict[int, int] = {}
        self._suspects: dict[int, dict[str, int]] = {}  # by model, how often each may still be compared

    def marks(self, module: Any, wanted: bool) -> Marks | None:
        """What to compare with when the pass has ended; None where this pass is not looked at."""
        if not wanted:
            return None
        count = self._passes[id(module)] = self._passes.get(id(module), 0) + 1
        if count > _FIRST and count % _EVERY:
            return None
        held = {**dict(self._held(module)), **dict(self._kept(module))}
        suspects = self._suspects.get(id(module), {})
        chosen = [name for name, left in suspects.items() if left > 0 and name in held]
        copies = {}
        if chosen and not impossible(self._torch):
            with Outside(self._torch):
                copies = {name: sample.clone() for name in chosen if (sample := _sample(held[name])) is not None}
        return {name: _mark(one) for name, one in held.items()}, copies

    def written(self, module: Any, marks: Marks) -> tuple[list[tuple[str, bool]], Pending] | None:
        """Names, within the module, of what was compared and whether it is a buffer, and how far each has changed.

        Of a parameter it is the share of numbers that are others now. Of a buffer it is how far it went, as a share of
        what it was; 0 where it holds whole numbers, as counters do.
        """
        before, copies = marks
        held, kept = dict(self._held(module)), dict(self._kept(module))
        held.update(kept)
        suspects = self._suspects.setdefault(id(module), {})
        for name, mark in before.items():
            if (
                name in held
                and name not in suspects
                and len(suspects) < _SUSPECTS
                and _touched(mark, _mark(held[name]))
            ):
                suspects[name] = _PATIENCE
        if not copies or impossible(self._torch):
            return None
        names, shares = [], []
        first = next(iter(copies.values())).device
        with Outside(self._torch):
            for name, old in copies.items():
                now = _sample(held[name]) if name in held else None
                if now is None or (now.shape, now.dtype, now.device) != (old.shape, old.dtype, first):
                    continue
                suspects[name] -= 1
                names.append((name, name in kept))
                far = _ROUNDED * self._torch.finfo(old.dtype).eps * old.abs()
                if name in kept:
                    went = (now - old).abs()
                    moved = (went > far).any() & (now != now.round()).any()
                    share = went.float().sum() / old.float().abs().sum()
                    shares.append(self._torch.where(moved, share, self._torch.zeros_like(share)))
                else:
                    shares.append(((now - old).abs() > far).float().mean())
            if not names:
                return None
            told = to_host(self._torch, self._torch.stack(shares))
        return names, Pending([told], lambda read: read[0])

    def _held(self, module: Any) -> Iterator[tuple[str, Any]]:
        """By name the parameters that can be looked at.

        A table whose rows are made shorter as they are looked up is meant to change, in evaluation too.
        """
        for prefix, part in module.named_modules():
            if getattr(part, "max_norm", None) is not None:
                continue
            for name, one in part.named_parameters(prefix, recurse=False):
                if type(one) is self._torch.nn.Parameter and one.device.type in DEVICES and not one.is_inference():
                    yield name, one

    def _kept(self, module: Any) -> Iterator[tuple[str, Any]]:
        """By name the buffers of the program's own layers that are saved with the model: what it keeps of its data."""
        for prefix, part in module.named_modules():
            if not part._buffers or type(part).__module__.startswith("torch."):
                continue
            for name, one in part.named_buffers(prefix, recurse=False):
                if name.rpartition(".")[2] in part._non_persistent_buffers_set or not one.is_floating_point():
                    continue
                if type(one) is self._torch.Tensor and one.device.type in DEVICES and not one.is_inference():
                    yield name, one


def _mark(one: Any) -> Mark:
    """Where a parameter lies, and how often it was written to."""
    return one.device, one.data_ptr(), one._version


def _touched(before: Mark, now: Mark) -> bool:
    """Whether a parameter may have been changed; one that was moved to another device is the same one."""
    return before != now and before[0] == now[0]


def _sample(one: Any) -> Any:
    """The first numbers of a parameter, None where they cannot be compared."""
    if not simple(one) or not one.is_floating_point() or one.element_size() < 2 or not one.is_contiguous():
        return None
    return one.view(-1)[:_SAMPLE] if one.numel() else None
