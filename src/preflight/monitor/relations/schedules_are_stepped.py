"""A schedule that was made is stepped before the training is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.window import Call, Window

_LATE = "SWALR"
"""A schedule that is stepped once a later phase has begun, which a training may end before."""
_PLATEAU = "ReduceLROnPlateau"
"""A schedule that waits for a measure, which may be taken more seldom than once an epoch."""
_ONE_CYCLE = "OneCycleLR"
"""A schedule that is laid out over the whole training, of which the first step is due before a pass is followed by another."""
_PASSES = 3
"""Whole passes through the data after which a schedule of epochs has been stepped, too."""
_SURELY = 10
"""Steps that are enough where no line of the program's text steps it."""


class SchedulesAreStepped(Relation):
    """A schedule of a learning rate that was made for an optimizer is stepped before the training is over.

    Where ``scheduler.step()`` is missing, or stands in a branch that is not taken, nothing complains: the rate keeps its
    first value, which of a warm-up or a one-cycle schedule is a small share of the one that was meant.
    Judged at the end of a program that ended by itself, of optimizers that stepped, of which no schedule was ever stepped
    although one was made and the training then went through the data of its loader three times and more, and whose rate
    was the same all the while: what brings the rate on in another way is no violation, nor is a second schedule that
    takes the place of the first.
    Ten steps are enough, no loader is needed and the end is not waited for, where the program's own text, all of it
    known, has no line that could step it: neither under a name that may hold it, nor by handing it to a library.
    A plateau's measure must have been there as often: data that is not trained on was gone through, too.
    Of ``OneCycleLR``, which is laid out over the steps of the whole training, one pass that another one followed is
    enough.
    Left out is ``SWALR``, which is made for a later phase that a training may end before.
    """

    name = "schedules-are-stepped"
    needs = frozenset(
        {"scheduler.new", "scheduler.step", "step", "loop", "fetch", "batch", "backward", "scalar", "never"}
    )
    follows = (fetches_of,)
    wakes = frozenset({"scheduler.new", "scheduler.step", "loop", "batch", "scalar lr", "never", "note end"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "scheduler.step() is missing, or stands in a branch that is not taken"
    advice = "step the schedule after the optimizer's step, or once an epoch where it counts epochs; or do not make it"

    def __init__(self) -> None:
        self._made: dict[str, tuple[Call, dict[str, int]]] = {}  # and how often the data of each loader was begun with
        self._stepped: set[str] = set()
        self._rates: dict[str, float | None] = {}  # by group
        self._moved: set[str] = set()  # optimizers of which a rate has changed
        self._begun: dict[str, int] = {}  # by loader that is trained with: how often its data was begun with
        self._trained: set[str] = set()
        self._never: set[str] = set()  # what no line of the program steps
        self._steps = 0

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            self._stepped.update(str((told or {}).get("optimizer")) for told in (call.args, call.result))
        for call in window.named("loop"):
            self._begun[call.object] = self._begun.get(call.object, 0) + 1
        for call in window.named("scheduler.new"):  # it comes last in its iteration
            optimizer = str((call.args or {}).get("optimizer"))
            if optimizer not in self._made or self._made[optimizer][0].object == _LATE:
                self._made[optimizer] = call, dict(self._begun)
        self._trained.update(fetch.batch.loader for fetch in fetches_of(window) if fetch.trained)
        for call in window.named("never"):
            self._never.update((call.args or {})["step"])
        told = bool(window.named("never"))
        for number in window.numbers:
            if number.name == "lr":
                self._steps = max(self._steps, number.s + 1)
                owner = number.object.rpartition(".")[0]
                if self._rates.setdefault(number.object, number.value) != number.value:
                    self._moved.add(owner)
        ends = [note.get("how") == "exit" for note in window.notes.get("end", ())]
        for ended in ends or ([False] if told else []):
            yield from self._judge(ended)

    def _judge(self, ended: bool) -> Iterator[Example]:
        trains = {name.rpartition(".")[0] for name in self._rates}
        for optimizer, (call, begun) in self._made.items():
            if optimizer not in trains:
                continue
            passes = self._passes(self._trained, begun)
            if call.object == _PLATEAU:
                passes = min(passes, self._passes(self._begun.keys() - self._trained, begun))
            most = 1 if call.object == _ONE_CYCLE else _PASSES
            surely = self._steps >= _SURELY and f"scheduler of {optimizer}" in self._never
            wrong = ((ended and passes >= most) or surely) and optimizer not in self._stepped | self._moved
            wrong = wrong and call.object != _LATE
            yield Example(
                (),
                not wrong,
                {"scheduler": call.object},
                variables=(call.object, optimizer) if wrong else (),
                expected="steps of the schedule" if wrong else None,
                seen=self._seen(passes, surely) if wrong else None,
                call=call,
                detail=f"{call.object} was made for {optimizer} and never stepped" if wrong else "",
            )

    def _seen(self, passes: int, surely: bool) -> str:
        if surely:
            return f"none in {self._steps} steps, at one rate, and no line of the program that could step it"
        return f"none in {passes} pass{'es' * (passes > 1)} through the data and more, at one rate"

    def _passes(self, loaders: Iterable[str], begun: dict[str, int]) -> int:
        """Whole passes through one of some loaders since a schedule was made."""
        return max((self._begun.get(one, 0) - begun.get(one, 1) for one in loaders), default=0)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("scheduler.step StepLR", {"args": {"optimizer": "optimizer0:SGD"}}))
        yield _run(rate=0.001)  # the program sets the rate by itself
        yield _run(how="signal")
        yield _run(loops=_PASSES)
        yield _run(late=True)  # a second phase had only begun
        yield _run(kind=_LATE)
        yield _run(kind=_PLATEAU)  # nothing was measured
        yield _run(loops=_PASSES, never=["scheduler of optimizer0:SGD"])  # a trial
        yield _run(loops=_SURELY, loader=False)
        yield _run(loops=_SURELY, loader=False, never=["optimizer0:SGD"])
        yield _run(kind=_ONE_CYCLE, loops=1)  # it may be one that counts epochs

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()
        yield _run(kind=_PLATEAU, measured=True)
        yield _run(loops=_SURELY, loader=False, never=["scheduler of optimizer0:SGD"])
        yield _run(kind=_ONE_CYCLE, loops=2)


def _run(
    *last: object,
    rate: float = 0.0,
    how: str = "exit",
    loops: int = _PASSES + 1,
    late: bool = False,
    kind: str = "StepLR",
    measured: bool = False,
    loader: bool = True,
    never: Sequence[str] = (),
) -> list[Window]:
    """Passes through the data in steps at a rate, which falls by so much with each pass; what stands last ends each of them."""
    mini = Mini({"model.weight": {}})
    new = (f"scheduler.new {kind}", {"args": {"optimizer": "optimizer0:SGD"}})
    windows = [] if late else [mini.window(new)]
    for epoch, number in [(epoch, number) for epoch in range(loops) for number in range(2)]:
        rows = [
            *(["loop loader0", *(["loop loader1"] if measured else [])] if loader and not number else []),
            *([("fetch loader0", {"args": {"epoch": epoch, "fetch": number}})] if loader else []),
            *([("batch", {"epoch": epoch, "fetch": number})] if loader else []),
            *("forward model", "backward"),
            ("scalar", "lr", "optimizer0:SGD.0", 0.1 - rate * epoch),
            "step optimizer0:SGD",
            *(last if number else ()),
        ]
        windows.append(mini.window(*rows, *([new] if late and epoch and number else [])))
    text = ("never", {"args": {"step": list(never), "backward": []}})
    return [*windows, mini.window(text, ("note", "end", {"how": how}))]
