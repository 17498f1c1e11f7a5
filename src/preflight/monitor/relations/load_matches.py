"""What is loaded fits the module."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class LoadMatches(Relation):
    """A state that is loaded with ``strict=False`` has names in common with the module.

    Without ``strict``, names that do not fit are passed over without a word: a prefix that one side has and the other
    has not (``module.``, ``model.``) is enough for nothing to arrive, and the training starts from random weights.
    It is broken where no name fits, or where less than a tenth of the state's and less than a tenth of the module's do.
    Parts of a model in a state of their own (adapters, a backbone) fit as a whole, and are fine.
    """

    name = "load-matches"
    category = "checkpoint"
    needs = frozenset({"load_state_dict"})
    wakes = frozenset({"load_state_dict"})
    whole = False
    priority = 16
    cause = "the names of the state have another prefix than those of the module"
    advice = "look at what load_state_dict returns (missing_keys, unexpected_keys), and strip or add the prefix"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("load_state_dict"):
            told = call.args or {}
            if not told.keys() >= {"matched", "missing", "unexpected"}:
                continue
            matched, missing, unexpected = told["matched"], len(told["missing"]), len(told["unexpected"])
            if not matched + unexpected or not matched + missing:
                continue
            least = 0.1 * min(matched + missing, matched + unexpected)
            wrong = matched < least or not matched
            yield Example(
                (),
                not wrong or call.error is not None,
                {"strict": told.get("strict")},
                variables=(call.object, *told["missing"][:8]) if wrong else (),
                expected="names that the module has",
                seen=f"{matched} of the state's {matched + unexpected} names fit the module's {matched + missing}"
                if wrong
                else None,
                call=call,
                detail=f"Nearly nothing of the state that is loaded arrives in {call.object}" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _load(2, ["head.weight"], [])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _load(0, ["a.weight", "a.bias"], ["model.a.weight", "model.a.bias"])


def _load(matched: int, missing: list[str], unexpected: list[str]) -> list[Window]:
    args = {"strict": False, "matched": matched, "missing": missing, "unexpected": unexpected}
    return [Mini({"model.weight": {}}).window(("load_state_dict model", {"args": args}))]
