"""Workers that stay hear of what the program changes in their data set."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class WorkersHearOfChanges(Relation):
    """What a program sets in a data set between two epochs reaches the workers that read it.

    With ``persistent_workers=True`` the workers of a loader are started once, and each has a copy of the data set. What is
    set in the main process afterwards (``dataset.epoch = epoch``, a harder augmentation, a longer sequence) stays there: the
    workers go on with the values of the first epoch, and nothing complains.
    Judged as each later loop over such a loader begins, by numbers, texts and truth values that are attributes of the data
    set, of what it wraps, of its transforms or of what collates, and that the code which gives the samples reads and
    never sets. It is broken where one of them is another than when the workers were started. What lies in shared
    memory is no such value.
    """

    name = "workers-hear-of-changes"
    category = "data"
    needs = frozenset({"loop"})
    wakes = frozenset({"loop"})
    whole = False
    severity = "warning"
    priority = 7
    cause = "persistent_workers=True keeps copies of the data set that were made before it was changed"
    advice = "leave persistent_workers out, keep the value in shared memory (multiprocessing.Value), or hand it over with the index"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("loop"):
            unheard = (call.args or {}).get("unheard")
            if unheard is None:
                continue
            yield Example(
                (),
                not unheard,
                {},
                variables=(call.object, *unheard),
                expected="workers with what is set in their data set" if unheard else None,
                seen=f"{', '.join(unheard)} as it was when they were started" if unheard else None,
                call=call,
                detail=f"The workers of {call.object} do not hear of {unheard[0]}, which the program has changed"
                if unheard
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(["Set.epoch"])


def _run(unheard: list[str]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    loops = [("loop loader0", {"args": {"epoch": 0}}), ("loop loader0", {"args": {"epoch": 1, "unheard": unheard}})]
    return [mini.window(loop, "forward model", "backward", "step optimizer0:SGD") for loop in loops]
