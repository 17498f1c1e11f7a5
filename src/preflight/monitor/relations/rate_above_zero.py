"""The learning rate is above zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.options import zero_was_chosen
from preflight.monitor.window import ORDER, Call, Window

_STEPS = 5
_BEGINNING = 3
_SINCE = " since its first step"
_MADE = ", with which it was made"
_LONG = 100
"""Steps at a rate of zero that an optimizer was made with: some, as to fill averages with first gradients, are meant."""
_ALONE = 20
"""Steps at such a rate before any other optimizer steps that are too many: it was a stage of its own, and trained nothing."""
_TOP = 0.5
"""Of the highest rate so far, the share from which no schedule gets to zero at once."""

_NOTHING = 1e-9
"""Of the highest rate so far, the share at which no weight moves any more: of a step of Adam at a rate of 0.01, less than the
last place of a number in float32 that is greater than a thousandth."""
_MANY = 0.05
"""Steps at it that are too many, as a share of those before: a decay to zero by whatever power has fewer."""


class RateAboveZero(Relation):
    """No optimizer goes on stepping at a learning rate of zero in all of its groups, or below zero in any.

    A rate of zero for a step or two is the beginning of a warm-up or the end of a decay. One that has been above zero
    and then stays at zero for five steps, and for five advances of its schedule where there is one, means that the
    schedule is at its end and the training is not: what follows is computed for nothing.
    A schedule that takes a rate near its top to zero in one advance has no decay that could be at its end: after five
    steps above zero, the first step that follows is one too many.
    A rate that has fallen to a billionth of what it was is as good as zero: steps at it are too many where they are five,
    and a twentieth of those before, as where a schedule that counts epochs advances with every batch.
    A warm-up may begin at zero, and is above it after an advance: where it is not after two, for three steps, whole
    numbers were divided. Where a scheduler keeps the rate at zero and does not advance in three steps, it is stepped once an
    epoch and was to be stepped with the optimizer. Neither is told of an optimizer beside another one that trains, which
    may wait for its turn; nor is a rate of zero that the program has set itself beside one, as for a discriminator that is
    too strong.
    One that was made with a rate of zero, which nothing has raised in a hundred steps, or in five and more until the program
    ended by itself, or in twenty before another one began, trains nothing. Beside one that trains it
    may be meant so, as where an option turns a part of the training off; and so may a stage before another one that fills running
    statistics, or whose zero somebody chose.
    """

    name = "rate-above-zero"
    needs = frozenset({"step", "scalar", "scheduler.step"})
    wakes = frozenset({"step", "scheduler.step", "note end"})
    repeats = 6
    looks = frozenset({"step", "rates", "optimizer.new"})
    reads = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 26
    cause = "the schedule is shorter than the training, or advances more often than once a step"
    advice = "compare the length of the schedule with the number of steps, and how often scheduler.step() is called"

    def __init__(self) -> None:
        self._rates: dict[str, dict[str, float]] = {}
        self._above: set[str] = set()
        self._zero: dict[str, int] = {}
        self._advances: dict[str, int] = {}
        self._top: dict[str, float] = {}
        self._done: dict[str, int] = {}
        self._fell: set[str] = set()
        self._waits: dict[str, int] = {}  # steps at zero before the first one above it
        self._made: set[str] = set()  # optimizers that were made with a rate of zero
        self._last: dict[str, Call] = {}  # and the last step of each at it
        self._beside: set[str] = set()  # of these, those beside which another one trains
        self._faint: dict[str, int] = {}  # steps in a row at a rate that is as good as zero

    def quiet(self, window: Window) -> bool:
        """Whether no optimizer steps at a rate that is as good as zero; of one that does, it counts the steps."""
        return not any(self._faint.values()) and self._made <= self._above

    def slept(self, window: Window, times: int) -> None:
        """Count the steps above zero, and those at it."""
        for call in window.named("step"):
            name, rates = call.object, self._rates.get(call.object, {}).values()
            if not rates:
                continue
            counts = self._done if max(rates) > 0 else self._zero if name in self._above else self._waits
            if max(rates) >= 0:
                counts[name] = counts.get(name, 0) + times

    def see(self, window: Window) -> Iterator[Example]:
        numbers = [one for one in window.numbers if one.name == "lr" and one.value is not None]
        at = 0
        self._made.update(one.object for one in window.named("optimizer.new") if (one.args or {}).get("made_at_zero"))
        calls = window.named("step")
        if window.named("scheduler.step"):
            calls = sorted([*calls, *window.named("scheduler.step")], key=ORDER)
        for call in calls:
            if call.name == "scheduler.step":
                self._advanced(call)
                continue
            while at < len(numbers) and numbers[at].q < call.q:
                name, _, group = numbers[at].object.rpartition(".")
                self._rates.setdefault(name, {})[group] = numbers[at].value or 0.0
                at += 1
            rates = list(self._rates.get(call.object, {}).values())
            if rates and max(rates) > 0:
                yield from self._stages(call.object, window)
            if rates:
                yield self._judge(call, rates)
        if any(note.get("how") == "exit" for note in window.notes.get("end", ())):
            yield from self._end()

    def _end(self) -> Iterator[Example]:
        """A program that ended by itself has raised no rate that it began with."""
        for name, call in self._last.items():
            if not self._above and self._stays(name, _STEPS) and not self._stays(name, _LONG):
                yield _example(call, [0.0], self._waits[name], "a learning rate above zero", _MADE)

    def _stages(self, name: str, window: Window) -> Iterator[Example]:
        """Where another optimizer trains now, one that stepped at zero until here was a stage that trained nothing.

        Steps that fill running statistics do something, and a zero that somebody chose is meant.
        """
        for one in [one for one in self._last if one != name and one not in self._beside]:
            self._beside.add(one)
            if not self._above and self._stays(one, _ALONE) and not self._stays(one, _LONG):
                if _fills(window) or zero_was_chosen(window.run):
                    continue
                yield _example(self._last[one], [0.0], self._waits[one], "a learning rate above zero", _MADE)

    def _advanced(self, call: Call) -> None:
        """Count how often the schedule of an optimizer has left it at zero in a row."""
        told = call.result or {}
        rates, name = told.get("rates") or [], told.get("optimizer") or ""
        zero = bool(rates) and max(rates) == 0
        self._advances[name] = self._advances.get(name, 0) + 1 if zero else 0
        before = max((call.args or {}).get("before") or [0.0])
        if zero and before > 0 and before >= _TOP * self._top.get(name, before) and self._done.get(name, 0) >= _STEPS:
            self._fell.add(name)
        elif not zero:
            self._fell.discard(name)

    def _judge(self, call: Call, rates: list[float]) -> Example:
        name = call.object
        if max(rates) > 0:
            self._above.add(name)
            self._top[name] = max(max(rates), self._top.get(name, 0.0))
            faint = max(rates) <= _NOTHING * self._top[name]
            self._faint[name] = self._faint.get(name, 0) + 1 if faint else 0
            self._done[name] = self._done.get(name, 0) + 1
        elif name not in self._above and max(rates) == 0:
            self._waits[name] = self._waits.get(name, 0) + 1
            self._last[name] = call
        zero = max(rates) == 0 and name in self._above
        count = self._zero[name] = self._zero.get(name, 0) + 1 if zero else 0
        # A schedule that advances once in an epoch holds its last value for an epoch: its advances count.
        wrong = min(rates) < 0 or min(count, self._advances.get(name, count)) >= _STEPS or (zero and name in self._fell)
        waited = self._waits.get(name, 0)
        if not (call.args or {}).get("held_at_zero"):  # a rate of zero that no scheduler has made may be meant
            waited = min(waited, self._advances.get(name, 0) + 1)
        rests = zero and name not in self._advances and any(one != name for one in self._above)
        wrong = wrong and not (rests and min(rates) == 0)
        still = self._faint.get(name, 0) if max(rates) > 0 else 0
        alone = name in self._advances or not any(one != name for one in self._above)
        if alone and still >= max(_STEPS, _MANY * self._done.get(name, 0)):
            wrong, count = True, still
        dead = not self._above and waited >= _BEGINNING
        made = not self._above and self._stays(name, _LONG)
        wrong, count = wrong or dead or made, self._waits[name] if dead or made else count
        if not wrong:
            return Example((), True, _context(name))
        above = f"a rate that is more than nothing beside {self._top.get(name, 0.0):g}"
        expected = "a learning rate above zero" if min(rates) <= 0 else above
        return _example(call, rates, count, expected, _SINCE if dead else _MADE if made else "")

    def _stays(self, name: str, least: int) -> bool:
        """Whether an optimizer was made with a rate of zero that no schedule advances, and has stepped at it for long."""
        return name in self._made and name not in self._advances and self._waits.get(name, 0) >= least

    @classmethod
    def explain(cls, example: Example) -> tuple[str, str]:
        if example.detail.endswith(_SINCE):
            return (
                "the warm-up divides whole numbers (step // warmup), or is stepped once an epoch where it counts steps",
                "divide with /, step it with the optimizer, and print the rate of the first steps",
            )
        if example.detail.endswith(_MADE):
            return (
                "the rate was lost on its way to the optimizer: an option that is zero, or whole numbers that were divided",
                "print the rate that the optimizer is made with",
            )
        return cls.cause, cls.advice

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.0, 0.1, 0.1, 0.0, 0.0])
        yield _run([0.0, 0.0, 0.0, 0.0])
        yield _warmed([0.0, 0.0, 0.1, 0.2])
        yield _waiting(2)
        yield _run([*[0.1] * 200, *[1e-14] * 6])
        yield _run([0.1, *[1e-9] * 8])
        yield _run([(1 - step / 200) ** 4 for step in range(200)])

        mini = Mini({"model.weight": {}, "critic.weight": {"optimizer": 1}})
        other = (("scalar", "lr", "optimizer1:SGD.0", 0.1), "backward", "step optimizer1:SGD")
        own = [("scalar", "lr", "optimizer0:SGD.0", rate) for rate in (0.1, *[0.0] * 8)]
        yield [mini.window(*other, rate, "backward", "step optimizer0:SGD") for rate in own]
        yield _made([*[0.0] * 20, 0.1])
        yield _made([0.0] * 20)  # it goes on
        yield _made([*[0.0] * 20, 0.1], end=True)
        yield _made([0.0] * 8, rate=0.1)
        yield _staged(6)
        yield _staged(_ALONE, argv=["train.py", "--first-rate", "0"])
        yield _staged(_ALONE, {"body.norm.running_mean": {"kind": "buffer"}})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
        yield _run([-0.1])
        yield _run([0.1, 1e-7, *[1e-14] * 6])
        yield _run([0.1 * 0.3 ** (step // 2) for step in range(48)])
        mini = Mini({"model.weight": {}})
        step = ("backward", ("scalar", "lr", "optimizer0:SGD.0", 0.1), "step optimizer0:SGD")
        gone = {"optimizer": "optimizer0:SGD", "rates": [0.0]}
        advance = ("scheduler.step StepLR", {"args": {"before": [0.1]}, "result": gone})
        last = ("backward", ("scalar", "lr", "optimizer0:SGD.0", 0.0), "step optimizer0:SGD")
        yield [*(mini.window(*step) for _ in range(6)), mini.window(advance, *last)]
        yield _warmed([0.0, 0.0, 0.0])
        yield _waiting(3)
        yield _made([0.0] * _LONG)
        yield _made([0.0] * 6, end=True)
        yield _staged(_ALONE)


def _fills(window: Window) -> bool:
    """Whether a model has statistics that a pass in training mode brings on, whatever the rate is."""
    return any(one.kind == "buffer" and ".running_" in f".{one.name}" for one in window.run.variables.values())


def _context(name: str) -> dict[str, str]:
    return {"optimizer": name.split(":")[-1]}


def _example(call: Call, rates: list[float], count: int, expected: str, since: str) -> Example:
    return Example(
        (),
        False,
        _context(call.object),
        variables=(call.object,),
        expected=expected,
        seen=f"{min(rates):g}" + (f" for {count} steps" if count > 1 else ""),
        call=call,
        detail=f"{call.object} steps at a learning rate of {min(rates):g}{since}",
    )


def _run(rates: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window("backward", ("scalar", "lr", "optimizer0:SGD.0", rate), "step optimizer0:SGD") for rate in rates
    ]


def _warmed(rates: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    for at, rate in enumerate(rates):
        told = {"optimizer": "optimizer0:SGD", "rates": [rate]}
        advance: list[Any] = [("scheduler.step LambdaLR", {"args": {"before": [0.0]}, "result": told})] if at else []
        step = (("scalar", "lr", "optimizer0:SGD.0", rate), "backward", "step optimizer0:SGD")
        windows.append(mini.window(*advance, *step))
    return windows


def _waiting(steps: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    step = (
        ("scalar", "lr", "optimizer0:SGD.0", 0.0),
        "backward",
        ("step optimizer0:SGD", {"args": {"held_at_zero": True}}),
    )
    return [mini.window(*step) for _ in range(steps)]


def _made(rates: list[float], rate: float = 0.0, end: bool = False) -> list[Window]:
    """An optimizer that was made with a rate of zero, and steps at others, in turns with one of another network."""
    mini = Mini({"model.weight": {}, "critic.weight": {"optimizer": 1}})
    made = ("optimizer.new optimizer0:SGD", {"args": {"made_at_zero": True}})
    windows = []
    for at, own in enumerate(rates):
        other = (("scalar", "lr", "optimizer1:SGD.0", rate), "backward", "step optimizer1:SGD") if rate else ()
        first = () if at else (made,)
        windows.append(
            mini.window(*first, *other, "backward", ("scalar", "lr", "optimizer0:SGD.0", own), "step optimizer0:SGD")
        )
    if end:
        windows.append(mini.window(("note", "end", {"how": "exit"})))
    return windows


def _staged(steps: int, more: dict[str, Any] | None = None, argv: Sequence[str] = ()) -> list[Window]:
    """So many steps of an optimizer that was made with a rate of zero, and then those of another one."""
    mini = Mini({"body.weight": {}, "head.weight": {"optimizer": 1}, **(more or {})})
    mini.run.begin["argv"] = list(argv)
    new = ("optimizer.new optimizer0:Adam", {"args": {"made_at_zero": True}})
    first = [
        mini.window(
            *([] if at else [new]), ("scalar", "lr", "optimizer0:Adam.0", 0.0), "backward", "step optimizer0:Adam"
        )
        for at in range(steps)
    ]
    then = (("scalar", "lr", "optimizer1:Adam.0", 0.1), "backward", "step optimizer1:Adam")
    return [*first, mini.window(*then), mini.window(*then)]
