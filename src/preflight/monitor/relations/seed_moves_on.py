"""The seed is not set anew for each step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window


class SeedMovesOn(Relation):
    """The program does not seed torch's generator with the same number between every two steps.

    Who seeds inside the loop draws the same numbers in each step: the same dropout masks, the same noise, the same
    permutations. The loss falls, and often faster than it should.
    Judged at each forward pass of training that follows a seeding by the person's own code since the step before: in
    two steps in succession the number must differ. Seedings before an evaluation, or before the first step, are fine, and
    so are those of a closure, whose loss must be one and the same function for a line search.
    """

    name = "seed-moves-on"
    needs = frozenset({"seed", "forward", "step"})
    wakes = frozenset({"seed", "forward", "step"})
    repeats = 3
    looks = frozenset({"step"})
    reads = frozenset({"seed"})
    whole = False
    severity = "warning"
    priority = 20
    cause = "torch.manual_seed is called with a constant inside the training loop"
    advice = "seed once before the loop, or use a torch.Generator of its own for what must repeat"

    def __init__(self) -> None:
        self._seeding: Call | None = None
        self._used: Call | None = None
        self._stepped = False
        self._before: int | None = None

    def see(self, window: Window) -> Iterator[Example]:
        steps = window.named("step")
        calls = [call for name in ("seed", "forward", "step") for call in window.named(name)]
        calls = [call for call in calls if call.name == "step" or not any(one.q < call.q < one.e for one in steps)]
        for call in sorted(calls, key=ORDER):
            told = call.args or {}
            if call.name == "seed" and told.get("user") and isinstance(told.get("seed"), int):
                self._seeding = call
            elif call.name == "forward" and (call.context or "").startswith("grad"):
                self._used = self._used or self._seeding
            elif call.name == "step":
                if self._stepped and self._used is not None:
                    yield self._judge(self._used)
                else:
                    self._before = None
                self._stepped = True
                self._seeding = self._used = None

    def _judge(self, call: Call) -> Example:
        seed = (call.args or {})["seed"]
        wrong = seed == self._before
        self._before = seed
        return Example(
            (),
            not wrong,
            {},
            variables=("torch.manual_seed",) if wrong else (),
            expected="another state of the generator in each step",
            seen=f"seed {seed} again before the step" if wrong else None,
            call=call,
            detail="The generator starts from the same seed in each step" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = [("seed torch", {"args": {"seed": number, "user": True}}) for number in range(4)]
        yield [mini.window(row, "forward model", "backward", "step optimizer0:SGD") for row in rows]
        mini = Mini({"model.weight": {}})
        closure = ("step optimizer0:LBFGS", {"inside": (("seed torch", rows[1][1]), "forward model", "backward")})
        yield [mini.window(row, "forward model", closure) for row in rows]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        row = ("seed torch", {"args": {"seed": 0, "user": True}})
        yield [mini.window(row, "forward model", "backward", "step optimizer0:SGD") for _ in range(4)]
