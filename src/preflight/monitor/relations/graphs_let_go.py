"""The graph of a loss is let go after its step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class GraphsLetGo(Relation):
    """What led to a loss is let go when the step is done, and not kept for the rest of the training.

    ``total += loss``, or a list to which each loss is appended, keeps the history of every loss it holds: memory grows with
    each batch until there is none left, and whatever goes through the sum takes longer each time.
    Judged at backward passes that begin at one place in the code: the graphs of fifty losses or more are all still held, the
    first of them since an earlier epoch. Where no loader says when an epoch begins, five hundred are.
    A list of losses that is emptied after each epoch, and a window of the last few, are not told of.
    """

    name = "graphs-let-go"
    category = "oom"
    needs = frozenset({"backward"})
    wakes = frozenset({"backward"})
    repeats = 2
    looks = frozenset({"backward"})
    whole = False
    severity = "warning"
    priority = 40
    cause = "losses are added up or collected as tensors, each with the graph that it was computed by"
    advice = "add loss.item() to what is printed or plotted, or loss.detach() where it should stay a tensor"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            held = int((call.args or {}).get("held") or 0)
            yield Example(
                (),
                not held,
                {},
                variables=("loss",) if held else (),
                expected="the graph of a loss is gone when the next ones are passed back",
                seen=f"the graphs of the last {held} losses are still held" if held else None,
                call=call,
                detail="The graphs of earlier losses are kept" if held else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini()
        yield [mini.window("backward", "step optimizer0:SGD") for _ in range(3)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini()
        yield [mini.window("backward"), mini.window(("backward", {"args": {"held": 50}}))]
