"""An optimizer counts the steps of the training, and none that were made beforehand."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class StateBeginsWithTraining(Relation):
    """A step that only makes an optimizer's state does not count as one of the training.

    State tensors are made at the first step. Who needs them earlier, for a checkpoint of a fixed layout, steps once on
    gradients of zero: the weights stay, but Adam has counted, and corrects its moments from then on as if there were one
    step more; the first updates come out at a half of their size, and a decay within the gradient is in the moments.
    Judged are optimizers whose first steps found gradients of exactly zero, without a backward pass, and left the weights
    as they were: their count at the first step with other gradients must be one. One that got its state from a
    checkpoint in between is not judged.
    """

    name = "state-begins-with-training"
    needs = frozenset({"step", "state", "load_state_dict"})
    wakes = frozenset({"gradients of a step", "load_state_dict"})
    repeats = 2
    looks = frozenset({"step", "load_state_dict", "gradient at before_step"})
    severity = "warning"
    priority = 23
    cause = "the optimizer is stepped on zeros to make its state (before a state_dict, for instance), which counts as a step"
    advice = "set the counts and moments in optimizer.state back to zero afterwards, or load a state over them"

    def __init__(self) -> None:
        self._idle: dict[int, int] = {}  # by optimizer, how many steps it made beforehand
        self._begun: set[int] = set()
        self._loaded: set[str] = set()

    def quiet(self, window: Window) -> bool:
        """Whether every optimizer that steps in it has begun: of those nothing more is said."""
        return all(step.optimizer in self._begun for step in steps_of(window))

    def see(self, window: Window) -> Iterator[Example]:
        self._loaded.update(call.object for call in window.named("load_state_dict"))
        for step in steps_of(window):
            if step.optimizer in self._begun or step.gradients is None:
                continue
            if step.done == self._idle.get(step.optimizer, 0) and _made_state(step):
                self._idle[step.optimizer] = step.done + 1
                continue
            self._begun.add(step.optimizer)
            idle = self._idle.get(step.optimizer, 0)
            if idle and step.done == idle and step.call.object not in self._loaded:
                yield self._judge(step, idle, window)
            else:
                yield Example((), True, {"optimizer": step.kind})

    @staticmethod
    def _judge(step: Step, idle: int, window: Window) -> Example:
        ahead = []
        for state in window.states:
            told = state.extra or {}
            if state.what != "optimizer" or state.q < step.call.q or told.get("optimizer") != step.optimizer:
                continue
            counts = zip(state.ids, told.get("steps") or (), strict=False)
            ahead = list(dict.fromkeys(ident for ident, count in counts if count is not None and count > 1))
            break
        return Example(
            (),
            not ahead,
            {"optimizer": step.kind},
            variables=(step.call.object, "step", *(window.run.name(ident) for ident in ahead)) if ahead else (),
            expected="a count of 1 after the first step of the training",
            seen=f"a count of {idle + 1}, for {counted(len(ahead), 'parameter')}" if ahead else None,
            call=step.call,
            detail="An optimizer counts a step on gradients of zero that was made before the training" if ahead else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1.0)
        yield _run(2.0, between=("load_state_dict optimizer0:Adam",))
        yield _run(2.0, first=0.5)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(2.0)


def _made_state(step: Step) -> bool:
    """Whether a step found nothing but zeros, and changed nothing."""
    if step.closure or step.named("backward") or step.named("autograd.grad") or step.gradients is None:
        return False
    found = [norm for norm in step.gradients.norm if norm is not None]
    if not found or any(norm != 0 for norm in found) or step.before is None or step.after is None:
        return False
    return bool(step.before.bits) and step.before.bits == step.after.bits


def _run(count: float, first: float = 0.0, between: tuple[str, ...] = ()) -> list[Window]:
    """A step on gradients of a norm without a backward pass, and one of the training that leaves a count."""
    mini = Mini({"model.weight": {}})
    windows = []
    for number, (norm, rows) in enumerate(((first, ()), (0.5, (*between, "backward")))):
        windows.append(
            mini.window(
                *rows,
                ("gradients", {"model.weight": norm}),
                ("before", {"model.weight": (1.0, 7)}, {"optimizer": 0}),
                "step optimizer0:Adam",
                ("after", {"model.weight": (1.0, 7 + number)}, {"optimizer": 0}),
                ("states", {"model.weight": 0.5}, {"optimizer": 0, "steps": [count if number else 1.0]}),
            )
        )
    return windows
