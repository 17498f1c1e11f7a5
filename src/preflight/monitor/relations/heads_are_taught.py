"""A part that is to be trained is taught by the loss that is computed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Window

_OVER = "term.over"
_LOOKS = 20
"""Looks at its gradient in which it had none."""
_STEPS = 1000
"""Steps from the first of them to the last: a run that is only tried out ends before, and with it what begins later."""
_LONG = 10_000
"""And such after which nobody waits for the end."""


class HeadsAreTaught(Relation):
    """Where a loss is computed from weights that an optimizer holds, and nothing else teaches them, it is passed back.

    Of several losses one is left out of the sum, or takes the place of what was added up before: the head that it was
    computed for is in the optimizer, takes part in each pass, and never learns.
    Judged are matrices at the ends of the graph of a loss of ``torch.nn.functional``, reduced to one number and computed
    where gradients are recorded, to which no backward pass comes. It is broken where such a matrix never had a gradient at
    twenty looks and more, while others that its optimizer holds have one. That is told at the end of a program that ended by
    itself after a thousand steps and more, or after ten thousand, as a loss may be added later on. Twenty are enough where the
    program's own text shows that nothing between the line of the loss and the backward passes, all of which stand in its loop,
    depends on a condition: what happens there in one step happens in each. What the program moves by hand, such as the
    codes of a quantisation, is left out. A head that is only measured looks the same: it need not be in the optimizer, nor be
    computed with a graph.
    """

    name = "heads-are-taught"
    needs = frozenset({"backward", "step", "state", "scalar", _OVER, "never"})
    follows = (looks_of,)
    wakes = frozenset({f"scalar {_OVER}", "gradients of a step", "exact parameter at before_step", "never", "note end"})
    whole = False
    severity = "warning"
    priority = 10
    cause = "the term is left out of the sum, or the sum is overwritten by one of its terms"
    advice = "add the term to the loss that backward() is called on, or compute it under no_grad where it is a measure"

    def __init__(self) -> None:
        self._over: dict[str, str] = {}  # by matrix, the loss that is computed from it and that nothing comes to
        self._had: set[str] = set()  # matrices that had a gradient, or that something else has moved
        self._missed: Counter[str] = Counter()  # by matrix, looks at which it had no gradient
        self._first: dict[str, int] = {}  # and the step of the first of them
        self._steps: dict[str, int] = {}  # and how many steps they go over
        self._told: set[str] = set()
        self._late = False
        self._last: Call | None = None
        self._missed_at: dict[str, Call] = {}  # by matrix, the first step for which it had none
        self._never: set[str] = set()  # places of losses that go where they went in each step

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name == _OVER:
                word, _, name = number.object.rpartition("#")
                self._over.setdefault(name, word)
        if not self._over:
            return
        for look in looks_of(window):
            self._had.update(name for name in map(window.run.name, look.moved) if name in self._over)
        for step in steps_of(window):
            self._last = step.call
            state = step.gradients
            if state is None or all(norm is None for norm in state.norm):
                continue  # they are kept elsewhere
            for ident, norm in zip(state.ids, state.norm, strict=True):
                name = window.run.name(ident)
                if name in self._over and norm is not None:
                    self._had.add(name)
                elif name in self._over:
                    self._missed[name] += 1
                    self._missed_at.setdefault(name, step.call)
                    self._steps[name] = step.call.s + 1 - self._first.setdefault(name, step.call.s)
        if not self._late and max(self._steps.values(), default=0) >= _LONG:
            self._late = True
            yield from self._judge(_LONG)
        for call in window.named("never"):
            self._never.update((call.args or {})["backward"])
            yield from self._judge(_LONG)
        for note in window.notes.get("end", ()):
            yield from self._judge(_STEPS if note.get("how") == "exit" else _LONG)

    def _judge(self, least: int) -> Iterator[Example]:
        """Judge all matrices of one loss together."""
        by_word: dict[str, list[str]] = {}
        for name, word in self._over.items():
            by_word.setdefault(word, []).append(name)
        for word, names in by_word.items():
            place, _, function, _ = (word.rsplit("#", 3) + [""] * 3)[:4]
            surely = place in self._never
            lost = [name for name in names if self._is_lost(name, _LOOKS if surely else least)]
            if word in self._told or not (lost or self._had.intersection(names)):
                continue
            self._told.update([word] if lost else [])
            yield Example(
                (),
                not lost,
                {},
                variables=(*lost, function, place) if lost else (),
                expected="a backward pass that reaches it" if lost else None,
                seen=f"no gradient in {self._steps[lost[0]]} steps" if lost else None,
                call=self._missed_at[lost[0]] if lost and surely else self._last,
                detail=f"The {function} at {place} is never passed back, and nothing else teaches {lost[0]}"
                if lost
                else "",
            )

    def _is_lost(self, name: str, least: int) -> bool:
        """Whether a matrix never had a gradient, at so many looks and in so many steps."""
        return name not in self._had and self._missed[name] >= _LOOKS and self._steps[name] >= least

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(head=0.5)  # a measure of what another loss teaches
        yield _run(since=15)
        yield _run(since=15, each=1, never=["train.py:6"])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()
        yield _run(each=1, never=["train.py:6"])


def _run(
    head: float | None = None, since: int | None = None, each: int = _STEPS // _LOOKS, never: Sequence[str] = ()
) -> list[Window]:
    """Steps of a body and a head of which a loss is computed; ``since`` a step from which on it is passed back.

    After ``each`` steps they were looked at again.
    """
    mini = Mini({"net.body.weight": {}, "net.head.weight": {}})
    over = ("scalar", _OVER, "train.py:6#0#l1_loss#Abs#net.head.weight", 1.0)
    windows = []
    for step in range(_LOOKS + 5):
        norm = 0.5 if since is not None and step >= since else head
        rows: list[Any] = ["backward", ("gradients", {"net.body.weight": 0.5, "net.head.weight": norm})]
        rows += ["step optimizer0:SGD", *([over] if step < 3 else [])]
        rows += ["step optimizer0:SGD"] * (each - 1)  # at which nothing was looked at
        text = ("never", {"args": {"step": [], "backward": list(never)}})
        rows += [text, ("note", "end", {"how": "exit"})] if step == _LOOKS + 4 else []
        windows.append(mini.window(*rows))
    return windows
