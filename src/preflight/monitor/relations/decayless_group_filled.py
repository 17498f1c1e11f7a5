"""A group without weight decay holds what needs none."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Variable, Window


class DecaylessGroupFilled(Relation):
    """Where an optimizer has a group without weight decay, biases and scales of normalisation are not in one with it.

    Parameters are commonly divided: matrices are decayed, biases and the scales of normalisation are not. Where the rule
    that divides them never matches, the group without decay stays empty, and what was to be spared is pulled to zero with
    the rest.
    Judged where an optimizer is made with a group that is empty and has no decay, beside one with decay. A model without
    biases and normalisation, or an adapter made of matrices alone, leaves that group empty rightly.
    """

    name = "decayless-group-filled"
    needs = frozenset({"optimizer.new"})
    wakes = frozenset({"optimizer.new"})
    severity = "warning"
    priority = 24
    cause = "the rule that divides the parameters is turned round, matches no name, or looks at names of other modules"
    advice = "print the sizes of optimizer.param_groups, and the names that are in each"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("optimizer.new"):
            told = call.args or {}
            groups, sizes = told.get("groups") or [], told.get("sizes") or []
            decays = [group.get("weight_decay") for group in groups]
            pairs = list(zip(decays, sizes, strict=False))
            if not any(decay == 0 for decay in decays) or not any(decay and size for decay, size in pairs):
                continue
            empty = any(decay == 0 and not size for decay, size in pairs)
            spared = any(decay == 0 and size for decay, size in pairs)
            decayed = [
                one
                for one in window.run.variables.values()
                if one.optimizer == told.get("index") and one.group < len(decays) and decays[one.group] and _small(one)
            ]
            wrong = empty and not spared and bool(decayed)
            yield Example(
                (),
                not wrong,
                {"optimizer": call.object.split(":")[-1]},
                variables=("param_groups", *(one.name for one in decayed)) if wrong else (),
                expected="biases and scales of normalisation in the group without decay",
                seen=f"none in it, and {len(decayed)} of them with decay" if wrong else None,
                call=call,
                detail=f"The group of {call.object} without weight decay is empty" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _made([1, 1], {"model.fc.weight": {}, "model.fc.bias": {"shape": [4], "group": 1}})
        yield _made([1, 0], {"model.fc.weight": {}})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _made([2, 0], {"model.fc.weight": {}, "model.fc.bias": {"shape": [4]}})
        yield _made([2, 0], {"model.fc.weight": {}, "model.norm.weight": {"shape": [4], "module": "LayerNorm"}})


def _small(one: Variable) -> bool:
    """Whether a parameter is a bias, or belongs to a normalisation."""
    return one.trainable and len(one.shape) == 1 and (one.name.endswith("bias") or "Norm" in one.module)


def _made(sizes: list[int], variables: dict[str, dict[str, object]]) -> list[Window]:
    groups = [{"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "weight_decay": 0.0}]
    told = {"index": 0, "sizes": sizes, "frozen": 0, "groups": groups}
    return [Mini(variables).window(("optimizer.new optimizer0:AdamW", {"args": told}))]
