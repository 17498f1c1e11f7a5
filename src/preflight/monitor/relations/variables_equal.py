"""Variables that are equal stay equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_MOST = 512


class VariablesEqual(Relation):
    """Two variables that were seen to change together go on having the same values.

    Tied weights, replicas within one process, a copy that follows its model: learnt for each pair of names whose
    fingerprints were equal in two states between which both had changed.
    """

    name = "variables-equal"
    fields = ("one", "other")
    needs = frozenset({"step", "state"})
    wakes = frozenset({"exact parameter at after_step"})
    severity = "warning"
    priority = 35
    learns = True
    cause = "tied weights were replaced by copies, or what should follow a model does not any more"
    advice = "tie the weights again after the model was moved, loaded or wrapped"

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._pairs: set[tuple[str, str]] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.state("after_step", "parameter", exact=True):
            held = {
                window.run.name(ident): bits
                for ident, bits in zip(state.ids, state.bits or (), strict=False)
                if bits is not None
            }
            changed = {name for name, bits in held.items() if self._before.get(name, bits) != bits}
            self._find({name: held[name] for name in changed})
            for one, other in sorted(self._pairs):
                if one not in held or other not in held:
                    continue
                equal = held[one] == held[other]
                yield Example(
                    (one, other),
                    equal,
                    {},
                    variables=(one, other),
                    expected=f"{one} and {other} with the same values",
                    seen=None if equal else "different values",
                    call=window.named("step")[-1] if window.named("step") else None,
                )
            self._before.update(held)

    def _find(self, changed: dict[str, int]) -> None:
        """Pairs that were equal before and after they changed."""
        by_bits: dict[int, list[str]] = {}
        for name, bits in changed.items():
            by_bits.setdefault(bits, []).append(name)
        for names in by_bits.values():
            first, *rest = sorted(names)
            for name in rest:
                if self._before[first] == self._before[name] and len(self._pairs) < _MOST:
                    self._pairs.add((first, name))

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('one')} and {subject.get('other')} have the same values"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(n, n) for n in range(8)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(n, n) for n in range(8)] + [(9, 10)])


def _run(pairs: list[tuple[int, int]]) -> list[Window]:
    mini = Mini({"model.a": {}, "model.b": {}})
    return [
        mini.window("step optimizer0:SGD", ("after", {"model.a": (1.0, one), "model.b": (1.0, other)}))
        for one, other in pairs
    ]
