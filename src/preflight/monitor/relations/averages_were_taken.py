"""An average of weights that is evaluated in the end has averaged something."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_STEPS = 10
"""Steps after which a model is no longer what it began with."""


class AveragesWereTaken(Relation):
    """The average that is evaluated once the training is over was updated at least once.

    ``AveragedModel`` begins as a copy of the weights of the start. Where ``update_parameters`` is never called, or the epoch
    at which averaging should begin lies behind the last one, what is evaluated, given to ``update_bn`` and saved is the model
    that nobody trained.
    Judged at the end of a program that ended by itself, of an ``AveragedModel`` whose last passes without gradients came
    after the last step of ten or more, by its own count of updates. Before averaging begins it may be looked at in vain.
    """

    name = "averages-were-taken"
    needs = frozenset({"forward", "step", "averaged"})
    wakes = frozenset({"scalar averaged", "note end"})
    whole = False
    priority = 16
    cause = "update_parameters is never called, or averaging begins after the last epoch"
    advice = "call averaged.update_parameters(model) after the steps that are to be averaged"

    def see(self, window: Window) -> Iterator[Example]:
        ended = any(note.get("how") == "exit" for note in window.notes.get("end", ()))
        after = max((call.e for call in window.named("step")), default=-1)
        counts = {one.object: one for one in window.numbers if one.name == "averaged" and one.value is not None}
        for name, count in counts.items():
            wrong = ended and not count.value and count.q > after and count.s >= _STEPS
            calls = [call for call in window.named("forward") if call.object == name and call.q > after]
            yield Example(
                (),
                not wrong,
                {},
                variables=(name, "update_parameters") if wrong else (),
                expected="an average of weights that were trained",
                seen=f"{name} was evaluated after {counted(count.s, 'step')}, and was never updated" if wrong else None,
                call=calls[0] if calls else None,
                detail="An average of weights is evaluated that holds the weights of the start" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.0, 0.0, 3.0])
        yield _run([0.0, 0.0], how="signal")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.0])


def _run(counts: list[float], how: str = "exit") -> list[Window]:
    mini = Mini({"model.weight": {}, "averaged.module.weight": {"optimizer": -1}})
    windows = []
    for number, count in enumerate(counts, 1):
        windows += [mini.window("forward model", "backward", "step optimizer0:SGD") for _ in range(_STEPS)]
        passed = (("forward averaged", {"context": "nograd"}), ("scalar", "averaged", "averaged", count))
        end = [("note", "end", {"how": how})] if number == len(counts) else []
        windows.append(mini.window(*passed, *end))
    return windows
