"""What is kept beside trained weights: copies in modules that no optimizer holds, and in tables of plain objects.

An average of weights adds up linearly, so one sum over each matrix and over what it was made from tells exactly which share
of its past a copy has kept in a step; norms do not. Taken are the sums of a few small matrices, before steps of detailed
iterations, and once more after the step those of what a network follows. Copies in modules are networks that no optimizer
steps, and parts of one that have the names of another part. Tables (a dictionary ``shadow``, a list of tensors) are found by
the names that the person's code has in sight: their tensors lie elsewhere than the weights and have the shapes of them,
under their names or in their order.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .naming import names_in_sight
from .pending import Pending, to_host
from .places import is_users
from .plain import DEVICES, Outside, impossible, plain_types, simple
from .recorder import Recorder
from .roster import Held
from .scope import attributes_of, is_a

SLOW, FAST, LEFT = "kept.slow", "kept.fast", "kept.left"
_MOST_MATRICES = 6
_LEAST = 16  # numbers of a matrix
_LEAST_PAIRS = 2
_MOST_TABLES = 4
_MOST_LOOKED = 400
_MOST_ENTRIES = 10_000  # of a table that is taken for one of weights
_PATIENCE = 3  # looks without any table, after which none is looked for

Rows = list[tuple[str, tuple[Any, ...]]]
Pairs = list[tuple[str, Any, tuple[Any, ...]]]
"""By name a matrix of a copy, and those that it may follow: one, or one of each of several networks that are alike."""


class Shadows:
    """Tells the sums of copies and of what they follow."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._misses = 0
        self._parts = False  # whether a part of a trained network lay beside another one of the same names and shapes
        self._follows: dict[str, int] = {}  # by copy, which of several networks that are alike it follows
        self._open: list[tuple[str, Pairs]] = []  # what was looked at before the step that goes on
        plain_types(recorder.torch)

    def look(self, held: Held, rest: Held) -> None:
        """Before a step of the first optimizer, which holds these; ``rest`` is what no optimizer steps."""
        recorder = self.recorder
        torch = recorder.torch
        self._open = []  # of a step that ended with an exception, perhaps
        if not recorder.wants(SLOW) or impossible(torch):
            return
        if self._misses >= _PATIENCE and not self._parts and not _any_resting(held, rest):
            return  # where there is nothing to compare with, what is trained need not be sorted
        trained = [
            (*one.name.partition(".")[::2], tensor)
            for one, tensor in held
            if one.kind == "parameter" and tensor.requires_grad and simple(tensor) and tensor.device.type in DEVICES
        ]
        by_root: dict[str, dict[str, Any]] = {}
        for root, name, tensor in trained:
            by_root.setdefault(root, {})[name] = tensor
        parts = _of_parts(trained, [*rest, *held])
        self._parts = bool(parts)
        found = self._of_modules(by_root, rest) + parts
        modules = len(found)
        if self._misses < _PATIENCE:
            tables = list(self._of_tables([(name, tensor) for _, name, tensor in trained]))
            self._misses = 0 if tables else self._misses + 1
            found += tables
        for at, (word, pairs) in enumerate(found[:_MOST_TABLES]):
            chosen = self._tell(word, pairs)
            if chosen and at < modules:
                self._open.append((word, chosen))

    def stepped(self) -> None:
        """After that step: tell the sums of what the copies follow."""
        recorder, torch = self.recorder, self.recorder.torch
        looked, self._open = self._open, []
        for word, pairs in looked:
            with Outside(torch):
                told = to_host(torch, _sums(torch, [tensor for *_, fast in pairs for tensor in fast]))
            recorder.later(Pending([told], lambda read: read[0]), self._rows_left(word, pairs))

    def _rows_left(self, word: str, pairs: Pairs) -> Callable[[list[float]], Rows]:
        head, width = self.recorder.head(), len(pairs[0][2])

        def rows(values: list[float]) -> Rows:
            fast = values[self._follows.get(word, 0) % width :: width]
            return [
                ("scalar", (*head, LEFT, f"{word}#{name}", value))
                for (name, *_), value in zip(pairs, fast, strict=True)
            ]

        return rows

    def _of_modules(self, trained: dict[str, dict[str, Any]], rest: Held) -> list[tuple[str, Pairs]]:
        """Networks that no optimizer steps, with weights of the names and shapes of trained ones."""
        by_root: dict[str, dict[str, Any]] = {}
        for variable, slow in rest:
            root, _, name = variable.name.partition(".")
            if variable.kind == "parameter":
                by_root.setdefault(root, {})[name] = slow
        found = []
        for root, own in by_root.items():
            fits = {
                other: [name for name, slow in own.items() if name in tensors and _fits(slow, tensors[name])]
                for other, tensors in trained.items()
            }
            most = max(fits.values(), key=len, default=[])
            alike = [other for other, names in fits.items() if names == most]
            if len(most) >= _LEAST_PAIRS:
                found.append((root, [(name, own[name], tuple(trained[one][name] for one in alike)) for name in most]))
        return found

    def _of_tables(self, trained: list[tuple[str, Any]]) -> Iterator[tuple[str, Pairs]]:
        named = _by_name(trained)
        seen: set[int] = set()
        for word, value in _in_sight(self.recorder.torch.nn.Module):
            if id(value) in seen:
                continue
            seen.add(id(value))
            pairs = list(_by_key(value, named) if isinstance(value, dict) else _in_order(value, trained))
            if len(pairs) >= _LEAST_PAIRS:
                yield word, pairs

    def _tell(self, word: str, pairs: Pairs) -> Pairs:
        """Tell the sums of a few matrices, and return these; nothing where they lie on several devices."""
        recorder, torch = self.recorder, self.recorder.torch
        chosen = sorted(pairs, key=lambda pair: pair[1].numel())[:_MOST_MATRICES]
        tensors = [tensor for _, slow, fast in chosen for tensor in (slow, *fast)]
        if len({tensor.device for tensor in tensors}) != 1:
            return []
        with Outside(torch):
            told = to_host(torch, _sums(torch, tensors))
        head = recorder.head()
        names = [name for name, *_ in chosen]
        width = len(chosen[0][2]) + 1

        def rows(values: list[float]) -> Rows:
            slow = values[::width]
            # Of networks that are alike, as twin critics are, a copy follows the one that it lay nearest to at first.
            several = [values[at::width] for at in range(1, width)]
            nearest = min(
                several, key=lambda fast: sum(abs(one - other) for one, other in zip(slow, fast, strict=True))
            )
            fast = several[self._follows.setdefault(word, several.index(nearest)) % len(several)]
            return [
                ("scalar", (*head, kind, f"{word}#{name}", value))
                for name, *both in zip(names, slow, fast, strict=True)
                for kind, value in zip((SLOW, FAST), both, strict=True)
            ]

        recorder.later(Pending([told], lambda read: read[0]), rows)
        return chosen


def _any_resting(held: Held, rest: Held) -> bool:
    """Whether any parameter may be that of a copy: no optimizer steps it, or it is not trained; buffers are none."""
    return any(one.kind == "parameter" for one, _ in rest) or not all(tensor.requires_grad for _, tensor in held)


def _sums(torch: Any, tensors: list[Any]) -> Any:
    return torch.stack([torch.sum(tensor, dtype=torch.float64) for tensor in tensors])


def _of_parts(trained: list[tuple[str, str, Any]], others: Held) -> list[tuple[str, Pairs]]:
    """Parts of a network that are not trained, with weights of the names and shapes of another part that is: ``encoder_k``.

    The layers of a list are named by numbers, and are no copies of each other.
    """
    resting = [
        (variable.name, tensor)
        for variable, tensor in others
        if variable.kind == "parameter" and not tensor.requires_grad and tensor.dim() > 1
    ]
    if not resting:
        return []
    by_rest: dict[tuple[str, str], dict[str, Any]] = {}  # by the names before and behind a part: by that part's name
    for root, name, tensor in trained:
        for before, part, behind in _splits(f"{root}.{name}"):
            by_rest.setdefault((before, behind), {})[part] = tensor
    groups: dict[tuple[str, str, str], Pairs] = {}
    for name, slow in resting:
        for before, part, behind in _splits(name):
            for other, fast in by_rest.get((before, behind), {}).items():
                if other != part and _fits(slow, fast):
                    groups.setdefault((before, part, other), []).append((behind, slow, (fast,)))
    found: dict[str, list[Pairs]] = {}
    for (before, part, _), pairs in groups.items():
        if len(pairs) >= _LEAST_PAIRS:
            found.setdefault(f"{before}.{part}", []).append(pairs)
    return [(word, several[0]) for word, several in found.items() if len(several) == 1]


def _splits(name: str) -> Iterator[tuple[str, str, str]]:
    """The name of a weight in a network, apart at each module on the way to it that is not named by a number."""
    parts = name.split(".")
    for at in range(1, len(parts) - 1):
        if not parts[at].isdigit():
            yield ".".join(parts[:at]), parts[at], ".".join(parts[at + 1 :])


def _fits(slow: Any, fast: Any) -> bool:
    """Whether a tensor may be a copy of a trained matrix: of its shape and kind, and lying elsewhere."""
    return bool(
        simple(slow)
        and slow.shape == fast.shape
        and slow.dtype is fast.dtype
        and slow.dim() > 1
        and slow.numel() >= _LEAST
        and slow.device == fast.device
        and slow.data_ptr() != fast.data_ptr()
    )


def _by_name(trained: list[tuple[str, Any]]) -> dict[str, Any]:
    """Trained tensors by their names within a network, those apart whose names several networks have."""
    counts = Counter(name for name, _ in trained)
    return {name: tensor for name, tensor in trained if counts[name] == 1}


def _by_key(table: dict[Any, Any], trained: dict[str, Any]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Tensors of a table with the trained ones of their names; what it holds by itself, as one of its own kind may load more."""
    kind = sys.modules["torch"].Tensor
    if dict.__len__(table) > _MOST_ENTRIES:
        return
    for key, value in list(dict.items(table)):
        if isinstance(key, str) and is_a(value, kind) and not value.requires_grad:
            fast = trained.get(key, trained.get(key.partition(".")[2]))
            if fast is not None and _fits(value, fast):
                yield key, value, (fast,)


def _in_order(table: Sequence[Any], trained: list[tuple[str, Any]]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Tensors of a list with the trained ones in their order, where there is one for each."""
    kind = sys.modules["torch"].Tensor
    own: Any = list if isinstance(table, list) else tuple
    if own.__len__(table) != len(trained):
        return
    both = [(name, slow, fast) for slow, (name, fast) in zip(own.__iter__(table), trained, strict=True)]
    if all(is_a(slow, kind) and slow.shape == fast.shape for _, slow, fast in both):
        yield from ((name, slow, (fast,)) for name, slow, fast in both if not slow.requires_grad and _fits(slow, fast))


def _in_sight(module: Any) -> Iterator[tuple[str, Any]]:
    """Dictionaries and lists that variables of the person's code hold, and attributes of its objects, with their names."""
    budget = [_MOST_LOOKED]
    for name, value in names_in_sight(sys._getframe(1)):
        if not name.startswith("__"):
            yield from _tables(name, value, module, 2, budget)
        if budget[0] <= 0:
            return


def _tables(name: str, value: Any, module: Any, depth: int, budget: list[int]) -> Iterator[tuple[str, Any]]:
    """A value where it is a table, and those that the attributes of an object of the person's own hold."""
    if is_a(value, (dict, list, tuple)):
        budget[0] -= 1
        yield name, value
        return
    if not depth or is_a(value, (module, type)) or not is_own(type(value)):
        return
    held = list(attributes_of(value).items())
    budget[0] -= bool(held)
    for word, inner in held:
        if budget[0] > 0:
            yield from _tables(word if name == "self" else f"{name}.{word}", inner, module, depth - 1, budget)


def is_own(kind: type) -> bool:
    """Whether a class is the person's own, or a library's that stands outside of torch."""
    home = sys.modules.get(kind.__module__)
    path = getattr(home, "__file__", None)
    return kind.__module__ == "__main__" or bool(path and (is_users(path) or not kind.__module__.startswith("torch.")))
