"""What a file holds arrives under the name that the model has for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class LoadFindsNames(Relation):
    """A load without ``strict`` does not leave out a tensor that the model misses under nearly the same name.

    Where most names fit, a few that do not are easily overlooked: a wrapper around one layer puts a word into its name
    (``score.weight`` and ``score.modules_to_save.default.weight``), and this layer alone starts at random again.
    Names are taken for the same where one has all words of the other, in order, and both the first or the last two in
    common. A head of another task has another name, and is fine.
    """

    name = "load-finds-names"
    category = "checkpoint"
    needs = frozenset({"load_state_dict"})
    wakes = frozenset({"load_state_dict"})
    whole = False
    priority = 15
    cause = "a layer was wrapped when the state was saved and is not when it is loaded, or the other way round"
    advice = (
        "look at missing_keys and unexpected_keys of what load_state_dict returns, and rename what belongs together"
    )

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("load_state_dict"):
            told = call.args or {}
            if call.error or not told.get("matched"):
                continue
            pairs = _pairs(told.get("missing") or (), told.get("unexpected") or ())
            names = tuple(f"{call.object}.{missing}" for missing, _ in pairs)
            yield Example(
                (),
                not pairs,
                {"strict": told.get("strict")},
                variables=names[:8],
                expected="the names that the model has",
                seen=f"{pairs[0][1]} for {pairs[0][0]}" if pairs else None,
                call=call,
                detail=f"{counted(len(pairs), 'tensor')} of what is loaded into {call.object} left out because of the names"
                if pairs
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _load(["head.weight"], ["classifier.weight"])
        yield _load([], ["head.default.weight"])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _load(["score.weight"], ["score.modules_to_save.default.weight"])
        yield _load(["base.encoder.layer.weight"], ["encoder.layer.weight"])


def _pairs(missing: Sequence[str], unexpected: Sequence[str]) -> list[tuple[str, str]]:
    """Names that the model misses, each with the one that came in its stead."""
    found = []
    by_last: dict[str, list[str]] = {}
    for name in unexpected:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    for name in missing:
        other = next((one for one in by_last.get(name.rpartition(".")[2], ()) if _same(name, one)), None)
        if other is not None:
            found.append((name, other))
    return found


def _same(one: str, other: str) -> bool:
    short, long = sorted((one.split("."), other.split(".")), key=len)
    if len(short) < 2 or len(short) == len(long):
        return False
    rest = iter(long)
    within = all(word in rest for word in short)
    return within and (short[0] == long[0] or short[-2:] == long[-2:])


def _load(missing: list[str], unexpected: list[str]) -> list[Window]:
    args = {"strict": False, "matched": 4, "missing": missing, "unexpected": unexpected}
    return [Mini({"model.weight": {}}).window(("load_state_dict model", {"args": args}))]
