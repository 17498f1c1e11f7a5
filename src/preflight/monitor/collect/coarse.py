"""Averages in half precision: whether numbers of them that lie a little apart from the trained ones move at all.

With eight bits, or eleven, a number moves by a two-hundredth of itself, or not. An average that takes a thousandth of the
way with each step stays as it is, but where it is next to nothing beside what it follows. Of a few small matrices of a
copy in half precision the numbers of a look before are kept, in detailed iterations, and compared with those of now. Where
a copy in full precision lies beside it, it may be made of that one anew each time, and nothing is told.
Copies that were never called are found by the names that the person's code has in sight.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .naming import names_in_sight
from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder
from .roster import Held
from .scope import attributes_of, is_a
from .shadows import is_own

NAME = "average.moved"
_MOST_LOOKS = 24
_MOST_SEARCHES = 3
_MOST_SEEN = 400  # values that are looked at in a search
_MOST_COPIES = 2
_MOST_KEPT = 6  # looks that are compared with one before
_MOST_MATRICES = 4
_WIDE = 1 << 14  # numbers of a matrix that are looked at
_LEAST = 16  # numbers that lie a little apart
# How far they lie apart, as a share of themselves. With a decay of 0.99 in bfloat16, or 0.999 in float16, less than a fifth
# is rounded away; with one of 0.9 more than a twenty-fifth is not.
_NEAR, _FAR = 1 / 16, 1 / 6


class Coarse:
    """Looks at copies in half precision of what is trained."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        torch = recorder.torch
        self._kinds = (torch.bfloat16, torch.float16)
        self._kept: dict[str, tuple[int, Any]] = {}  # by copy: at which look its numbers were kept, and these
        self._looks: dict[str, int] = {}
        self._searches = 0
        self._found: dict[str, weakref.ref[Any]] = {}  # modules in half precision that were never called

    def look(self, held: Held, rest: Held) -> None:
        """Before a step of the first optimizer, which holds these; ``rest`` is what no optimizer steps."""
        recorder, torch = self.recorder, self.recorder.torch
        if not recorder.wants(NAME) or impossible(torch):
            return
        half = [(one.name, tensor) for one, tensor in rest if one.kind == "parameter" and tensor.dtype in self._kinds]
        called = {name.partition(".")[0] for name, _ in half}
        half += [(f"{name}.{word}", one) for name, word, one in self._uncalled() if name not in called]
        if len(half) < 2:
            return
        trained: dict[str, list[Any]] = {}  # by name within a network
        for one, tensor in held:
            if one.kind == "parameter" and tensor.requires_grad:
                trained.setdefault(one.name.partition(".")[2], []).append(tensor)
        whole = {one.name.partition(".")[2] for one, tensor in rest if tensor.dtype == torch.float32}
        copies: dict[str, list[tuple[Any, Any]]] = {}
        for name, slow in half:
            root, _, word = name.partition(".")
            several = trained.get(word, [])
            if len(several) == 1 and word not in whole and _pairs(slow, several[0]):
                copies.setdefault(root, []).append((slow, several[0]))
        for root, pairs in list(copies.items())[:_MOST_COPIES]:
            if self._looks.get(root, 0) < _MOST_LOOKS:
                self._looks[root] = self._looks.get(root, 0) + 1
                self._compare(root, sorted(pairs, key=lambda pair: pair[0].numel())[:_MOST_MATRICES])

    def _uncalled(self) -> Iterator[tuple[str, str, Any]]:
        """Parameters in half precision that take no gradients, of modules that the person's code has in sight."""
        if self._searches < _MOST_SEARCHES:
            self._searches += 1
            for name, module in _modules(self.recorder.torch.nn.Module):
                if any(map(self._rests, module.parameters())):
                    self._found.setdefault(name, weakref.ref(module))
        for name, reference in self._found.items():
            module = reference()
            if module is not None and self._looks.get(name, 0) < _MOST_LOOKS:
                yield from ((name, word, one) for word, one in module.named_parameters() if self._rests(one))

    def _rests(self, one: Any) -> bool:
        """Whether a parameter in half precision takes no gradients."""
        return not one.requires_grad and one.dtype in self._kinds

    def _compare(self, root: str, pairs: list[tuple[Any, Any]]) -> None:
        """Tell which share of the numbers that lie a little apart has moved since, where any number of the copy has."""
        recorder, torch = self.recorder, self.recorder.torch
        if len({one.device for one, _ in pairs}) != 1:
            return
        with Outside(torch):
            slow = torch.cat([one.detach().reshape(-1)[:_WIDE] for one, _ in pairs])
            begun, before = self._kept.get(root, (-_MOST_KEPT, None))
            if before is None or before.shape != slow.shape or self._looks[root] - begun > _MOST_KEPT:
                self._kept[root] = self._looks[root], slow.clone()
                return
            fast = torch.cat([other.detach().reshape(-1)[:_WIDE] for _, other in pairs]).float()
            moved, old = slow != before, before.float()
            off = (fast - old).abs() / old.abs()
            near = (off > _NEAR) & (off < _FAR)
            counts = torch.stack([near.sum(), (near & moved).sum(), moved.sum()])
            told = to_host(torch, counts)
        head = recorder.head()

        def rows(values: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            some, went, any_ = values
            return [("scalar", (*head, NAME, root, went / some))] if some >= _LEAST and any_ else []

        recorder.later(Pending([told], lambda read: read[0]), rows)


def _pairs(slow: Any, fast: Any) -> bool:
    """Whether a tensor may be a copy of a trained matrix, whatever their precision."""
    same = slow.shape == fast.shape and slow.device == fast.device and slow.data_ptr() != fast.data_ptr()
    return bool(same and slow.dim() > 1 and simple(slow) and simple(fast) and slow.device.type in DEVICES)


def _modules(kind: Any) -> Iterator[tuple[str, Any]]:
    """Modules that variables of the person's code hold, and attributes of plain objects in these, with their names."""
    left = _MOST_SEEN
    for name, value in names_in_sight(sys._getframe(1)):
        left -= 1
        if left < 0:
            return
        if is_a(value, kind):
            yield name, value
        elif not name.startswith("__") and not is_a(value, type) and is_own(type(value)):
            inner = list(attributes_of(value).items())
            yield from ((f"{name}:{word}", one) for word, one in inner if is_a(one, kind))
