"""What was clipped is stepped."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window

_ALONE = 3


class ClippingIsUsed(Relation):
    """Gradients that are clipped are those that the next step takes.

    Where a line was copied, the critic's step clips the actor's gradients once more: what is clipped was used already
    and is cleared next, and what the step takes is never clipped.
    Judged is each clipping of the gradients of one optimizer after which another one steps whose gradients were not
    clipped, and which are cleared before their own optimizer steps: at once where the same gradients are clipped at
    another place, too, and used there, and otherwise after three times in a row.
    """

    name = "clipping-is-used"
    midway = True
    needs = frozenset({"clip_grad_norm", "clip_grad_value", "step", "zero_grad", "backward"})
    wakes = frozenset({"clip_grad_norm", "clip_grad_value", "step", "zero_grad"})
    repeats = 4
    looks = frozenset({"clip_grad_norm", "clip_grad_value", "step", "scaler.step", "zero_grad"})
    whole = False
    priority = 19
    cause = "clipping is given the parameters of another network than the one that steps"
    advice = "hand clip_grad_norm_ the parameters of the optimizer that steps next"

    def __init__(self) -> None:
        self._open: dict[int, Call] = {}  # by optimizer: its last clipping since it stepped
        self._instead: dict[int, int] = {}  # of these, which optimizer stepped since, without having been clipped
        self._used: dict[int, set[str]] = {}  # by optimizer: places whose clipping a step took
        self._rows: dict[tuple[int, str], int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name in ("clip_grad_norm", "clip_grad_value"):
                given = call.args or {}
                owners = [index for index in given.get("optimizers") or () if index >= 0]
                if len(owners) == 1 and not call.error:
                    self._open[owners[0]] = call
                    self._instead.pop(owners[0], None)
            elif call.name == "step" and self._open:
                yield from self._stepped(optimizer_number(call))
            elif call.name == "zero_grad" and self._open:
                yield from self._cleared(call, window)

    def _stepped(self, index: int) -> Iterator[Example]:
        clip = self._open.pop(index, None)
        self._instead.pop(index, None)
        if clip is None:
            for one in self._open:
                self._instead.setdefault(one, index)
            return
        place = clip.place or ""
        self._used.setdefault(index, set()).add(place)
        self._rows.pop((index, place), None)
        yield self._example(clip, index, -1, False)

    def _cleared(self, call: Call, window: Window) -> Iterator[Example]:
        for index in list(self._open):
            if optimizer_number(call) != index and call.object.split(".")[0] not in window.run.roots(index):
                continue
            clip = self._open.pop(index)
            instead = self._instead.pop(index, -1)
            place = clip.place or ""
            if instead < 0 or place in self._used.get(index, ()):
                continue
            rows = self._rows[index, place] = self._rows.get((index, place), 0) + 1
            yield self._example(clip, index, instead, bool(self._used.get(index)) or rows >= _ALONE)

    @staticmethod
    def _example(clip: Call, index: int, instead: int, wrong: bool) -> Example:
        word = f"clips what optimizer{index} holds, before a step of optimizer{instead}, and nothing uses it"
        return Example(
            (),
            not wrong,
            {},
            variables=(f"{clip.name}_", f"optimizer{instead}", f"optimizer{index}") if wrong else (),
            expected="clipping of the gradients that the next step takes",
            seen=f"{clip.name}_ {word}" if wrong else None,
            call=clip,
            detail=f"Clipping is given another network than the one that steps: it {word}" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(_clip(0, 9), "step optimizer0:SGD", "zero_grad optimizer1:SGD", _clip(1, 19), "step optimizer1:SGD")
        yield _run(_clip(0, 9), "step optimizer1:SGD", "step optimizer0:SGD")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(_clip(0, 9), "step optimizer0:SGD", "zero_grad optimizer1:SGD", _clip(0, 19), "step optimizer1:SGD")
        yield _run("step optimizer0:SGD", "zero_grad optimizer1:SGD", _clip(0, 19), "step optimizer1:SGD")


def _clip(index: int, line: int) -> tuple[str, dict[str, object]]:
    given = {"max_norm": 1.0, "parameters": 4, "gradients": 4, "optimizers": [index], "of": [4]}
    return "clip_grad_norm", {"args": given, "place": f"train.py:{line}"}


def _run(*rows: object) -> list[Window]:
    mini = Mini({"actor.weight": {}, "critic.weight": {"optimizer": 1}})
    return [mini.window("zero_grad optimizer0:SGD", "backward", *rows) for _ in range(5)]
