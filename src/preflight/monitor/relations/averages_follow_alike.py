"""What follows trained weights averages them, or copies them, as it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Premise, Relation
from preflight.monitor.relations.copies_stay_apart import APART
from preflight.monitor.views.kept import FAST, NONE, SLOW, Look, kept_of, share_kept
from preflight.monitor.views.options import numbers_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.window import Window

_ROW = 3
"""Steps that move it in the same way before it is said of a run: an average that is warmed up begins as a copy."""
_EARLY = 16
"""Steps from the first one on in which it is looked at: later, a plan may begin to average."""
_COPIES, _AVERAGES = "is made a copy of them", "keeps a share of what it was"


class AveragesFollowAlike(Relation):
    """What follows trained weights keeps a share of what it was, where it did in the runs this was learnt from.

    A target network, a teacher or an average that is overwritten with the trained weights at a step, in place of
    being moved a little towards them, is the trained network itself. Learnt of each network or table of tensors that
    follows trained ones, from how the sums of its matrices move from step to step (see `averages-keep-their-past`):
    whether three steps that move it leave a share of what it was, or none. How large the share is, and after how many
    steps it is moved, are settings. Nothing is said of one whose matrices move otherwise, nor of a network of which
    it is learnt that it stays apart (`copies-stay-apart`), nor of a copy where somebody chose a one, nor of a run
    that goes on with the state of an optimizer.
    """

    name = "averages-follow-alike"
    fields = ("average",)
    needs = frozenset({"step", "scalar", "backward", "load_state_dict", SLOW})
    wakes = frozenset({f"scalar {SLOW}", "backward", "load_state_dict"})
    severity = "warning"
    priority = 36
    learns = True
    least = 2
    support = 2
    cause = "an average or a target network is overwritten with the trained weights, or its decay is zero"
    advice = "look at where the average is updated: it should keep its decay times what it was"

    def __init__(self) -> None:
        self._last: dict[str, Look] = {}
        self._rows: dict[str, list[str]] = {}
        self._steps: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window):
            return
        for word, now in kept_of(window).items():
            before = self._last.get(word)
            self._last[word] = now
            steps = self._steps[word] = self._steps.get(word, 0) + 1
            if before is None or now.step != before.step + 1 or now.slow == before.slow or steps > _EARLY:
                continue
            row = self._rows.setdefault(word, [])
            told = _how(share_kept(before, now))
            row[:] = [*row, told] if told and told in row[-1:] else [told]
            if told and len(row) >= _ROW and not (told == _COPIES and 1.0 in numbers_of(window)):
                calls = window.named("step")
                call = calls[-1] if calls else None
                yield Example((pattern_of(word),), True, {}, (word,), call=call, value=told)

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        yield (Premise("copies-stay-apart", {"copy": subject.get("average"), "value": APART}),)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _AVERAGES

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        return f"{subject.get('average')}, which follows trained weights, {value}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('average')}, which follows trained weights, {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.99)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0)


def _how(share: float | None) -> str:
    """How something was moved that kept a share of its past; empty where that tells nothing."""
    if share is None or not -NONE < share < 1:
        return ""
    return _COPIES if share < NONE else _AVERAGES


def _run(share: float) -> list[Window]:
    names = ("0.weight", "2.weight")
    mini = Mini({f"online.{name}": {} for name in names})
    slow = dict.fromkeys(names, 1.0)
    windows = []
    for step in range(8):
        fast = {name: 5.5 + 2.0 * at + 0.1 * step for at, name in enumerate(names)}
        slow = {name: share * slow[name] + (1 - share) * fast[name] for name in names} if step else slow
        rows = [
            ("scalar", kind, f"target#{name}", held[name])
            for name in names
            for kind, held in ((SLOW, slow), (FAST, fast))
        ]
        windows.append(mini.window("backward", *rows, "step optimizer0:SGD"))
    return windows
