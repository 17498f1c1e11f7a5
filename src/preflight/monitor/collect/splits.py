"""Which parts of data were drawn by chance alone: by ``random_split`` from a generator that nobody has seeded.

Another process that runs the same program draws other parts.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from .entry import Entry
from .patching import Patches
from .recorder import Recorder

_DEEPEST = 4
_KEPT = 4  # indices by which a part is known again
_CHOSEN = 1 << 32  # below it seeds are what people choose, before the recorder began, too; torch draws one of 53 bits


class Splits:
    """Watches ``random_split``."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        # As the process began: every seeding, and a state that is put back, changes it.
        self._seed = recorder.torch.initial_seed()
        self._drawn: weakref.WeakKeyDictionary[Any, tuple[int, list[int]]] = weakref.WeakKeyDictionary()
        self._by_chance = False

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        data = sys.modules.get("torch.utils.data")
        if data is not None:
            patches.around(data, "random_split", self._splitting, self._split)
            patches.alias(data, "random_split", data.dataset)

    def told(self, dataset: Any) -> dict[str, Any]:
        """Whether a data set is a part that chance alone has drawn, and that is still the one that was drawn."""
        for _ in range(_DEEPEST):
            if type(dataset) is not sys.modules["torch.utils.data"].Subset:
                break
            drawn = self._drawn.get(dataset)
            if drawn is not None and drawn == _mark(dataset):
                return {"by_chance": True}
            dataset = dataset.dataset
        return {}

    def _splitting(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        torch = self.recorder.torch
        generator = kwargs.get("generator", args[2] if len(args) > 2 else None)
        usual = generator is None or generator is torch.default_generator
        self._by_chance = usual and torch.initial_seed() == self._seed >= _CHOSEN
        return None

    def _split(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if self._by_chance and error is None and isinstance(value, list):
            for part in value:
                self._drawn[part] = _mark(part)


def _mark(part: Any) -> tuple[int, list[int]]:
    indices = part.indices
    return (len(indices), [int(one) for one in indices[:_KEPT]]) if isinstance(indices, list) else (-1, [])
