"""Parameters are trained by the optimizer, and with the settings, that they were."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Premise, Relation, values_of
from preflight.monitor.views.options import is_named, same_rates_were_chosen, zero_was_chosen
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Run, Window

_TIMES = 2
"""Steps from the first one in which it is looked at: groups that come later are a plan's."""
_MOST_NAMES = 4
_AMOUNTS = (("weight_decay", "weight decay"), ("momentum", "momentum"))
_ANOTHER = "another rate than the first group"
_AT_ALL = "rate at all"
_ALL = "all of "
_VARIED = "not all alike"


class GroupsAlike(Relation):
    """Parameters are trained by the optimizer, and with the settings, that they were in the runs this was learnt from.

    Learnt is of each parameter, by its name without the numbers in it and the kind of its layer, the kind of its optimizer; whether its group has weight
    decay and momentum, of which it is not said how much; which switches of the group are on; whether of two averages the
    second is the slower one; whether its rate is another one than that of the first group, which is not asked where options that are rates were set alike; and whether it has one, where others have, which is not said where somebody chose a zero. Of a model whose parameters
    agree it is said once, of all of it. Rates themselves are settings, and so is an optimizer that an option names. Looked at is how the optimizers stand in the first two steps.
    """

    name = "groups-alike"
    fields = ("parameters", "layer", "what")
    needs = frozenset({"optimizer.new", "step", "backward"})
    wakes = frozenset({"optimizer.new", "step"})
    severity = "warning"
    priority = 42
    learns = True
    least = 1
    support = 1
    cause = "the parameters are divided into groups, or an optimizer is made, in another way than in the runs this was learnt from"
    advice = "compare how the optimizer is made, and what each of its groups is given, with a correct run"

    def __init__(self) -> None:
        self._made: dict[int, Mapping[str, Any]] = {}
        self._kinds: dict[int, str] = {}
        self._times = 0
        self._zero_chosen = False

    def see(self, window: Window) -> Iterator[Example]:
        if self._times >= _TIMES:
            return
        for call in window.named("optimizer.new"):
            told = call.args or {}
            self._made[told.get("index", -1)] = told
            self._kinds[told.get("index", -1)] = call.object.rpartition(":")[2]
        steps = steps_of(window)
        if not steps:
            return
        self._times += 1
        self._zero_chosen = zero_was_chosen(window.run)
        used = self._used()
        found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        for one in window.run.variables.values():
            if one.kind == "parameter" and one.optimizer in self._made:
                for what, value in self._settings(one.optimizer, one.group, used, window.run):
                    if what == "optimizer" and is_named(value, window.run):
                        continue
                    for part in ((_ALL + pattern_of(one.root), ""), (pattern_of(one.name), one.module)):
                        found.setdefault((*part, what), {}).setdefault(value, []).append(one.name)
        for subject, values in found.items():
            value = next(iter(values)) if len(values) == 1 else _VARIED
            if value != _VARIED or subject[0].startswith(_ALL):
                names = min(values.values(), key=len)[:_MOST_NAMES]
                yield Example(subject, True, {}, tuple(names), call=steps[-1].call, value=value)

    def _used(self) -> set[str]:
        """Which settings some group has: one that none has may be switched off for the whole run."""
        groups = [group for told in self._made.values() for group in told.get("groups") or []]
        return {word for word, _ in _AMOUNTS if any(group.get(word) for group in groups)}

    def _settings(self, index: int, number: int, used: Container[str], run: Run) -> Iterator[tuple[str, str]]:
        """What is known of a group, in words."""
        told = self._made[index]
        yield "optimizer", self._kinds[index]
        groups, options = told.get("groups") or [], told.get("options") or []
        if not 0 <= number < len(groups):
            return
        for word, name in _AMOUNTS:
            if word in used and isinstance(value := groups[number].get(word), (int, float)):
                yield name, f"with {name}" if value else f"without {name}"
        rates = [group.get("lr") for group in groups]
        if number and None not in (rates[0], rates[number]):
            if rates[number] != rates[0]:
                yield "rate", _ANOTHER
            elif not same_rates_were_chosen(run, rates[0]):
                yield "rate", "the rate of the first group"
        if None not in rates and any(rates) and (rates[number] or not self._zero_chosen):
            yield _AT_ALL, "with a rate" if rates[number] else "with a rate of zero"
        if number < len(options):
            on, betas = options[number].get("on") or [], options[number].get("betas") or []
            yield "switches", " and ".join(on) or "no switches"
            if len(betas) == 2:
                yield "averages", "the second average slower" if betas[0] <= betas[1] else "the first average slower"

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        part = str(subject.get("parameters"))
        if not part.startswith(_ALL):
            same = {field: subject[field] for field in ("what", "value") if field in subject}
            yield (Premise(cls.name, {"parameters": _ALL + part.partition(".")[0], "layer": "", **same}),)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        value = subject.get("value", _VARIED)
        return value == _VARIED or (subject.get("what") == "rate" and value != _ANOTHER)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = " or ".join(map(str, values_of(subject)))
        by = {"optimizer": "trained by", "rate": "trained with", "switches": "trained with", "averages": "trained with"}
        layer = f" of {subject['layer']}" if subject.get("layer") else ""
        return f"{subject.get('parameters')}{layer} is {by.get(str(subject.get('what')), 'trained')} {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.1, 0.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.1, 0.1)
        yield _run(0.0, 0.1)
        yield _run(0.1, 0.0, rate=0.0)


def _run(first: float, second: float, rate: float = 0.1) -> list[Window]:
    mini = Mini({"model.fc.weight": {}, "model.fc.bias": {"group": 1}})
    groups = [{"lr": 0.1, "weight_decay": first}, {"lr": rate, "weight_decay": second}]
    made = ("optimizer.new optimizer0:AdamW", {"args": {"index": 0, "groups": groups, "options": [{}, {}]}})
    return [mini.window(made, "backward", "step optimizer0:AdamW"), mini.window("backward", "step optimizer0:AdamW")]
