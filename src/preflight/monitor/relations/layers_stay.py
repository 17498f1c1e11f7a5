"""A layer that computes for the loss is there in the next pass, too."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window, within

_PASSES = 3
_INNER = ("backward", "autograd.grad", "step")


class LayersStay(Relation):
    """A layer with weights that need gradients is not made anew in every forward pass.

    ``nn.Linear(...)`` within ``forward`` is another layer each time, with random weights that no optimizer knows and that
    are gone after the pass: a random projection instead of a layer that learns.
    Judged are modules that are called within a training pass of a model without being a part of it: of one kind there is
    another one by the same name in each of three passes in a row, in iterations that are recorded in detail.
    A pass in which gradients are computed or an optimizer steps is an inner loop, as in meta learning: what it calls there
    is a copy that it adapts.
    """

    name = "layers-stay"
    needs = frozenset({"forward", "module"})
    wakes = frozenset({"module"})
    looks = frozenset({"forward", "module", *_INNER})
    whole = False
    priority = 7
    cause = "the layer is made in forward() and not in __init__()"
    advice = "make the layer in __init__ and keep it as an attribute of the module"

    def __init__(self) -> None:
        self._rows: dict[
            tuple[str, str], tuple[int, int]
        ] = {}  # by root and name: the last number, and how many in a row

    def see(self, window: Window) -> Iterator[Example]:
        modules = window.named("module")
        if not self._rows and not any("hidden" in (call.args or {}) for call in modules):
            return
        for root in window.named("forward"):
            if not root.context.startswith("grad") or not (root.args or {}).get("training", True):
                continue
            inside = [call for call in within(modules, root) if call.thread == root.thread]
            adapts = any(within(window.named(name), root) for name in _INNER)
            for name in {call.object: None for call in inside if not call.object.startswith(f"{root.object}.")}:
                yield from self._look(root, name, [call for call in inside if call.object == name], adapts)

    def _look(self, root: Call, name: str, calls: list[Call], adapts: bool) -> Iterator[Example]:
        """Judge what goes by one name within a pass: one that is kept is numbered in its first pass only."""
        numbers = [int(call.args["hidden"]) for call in calls if call.args and "hidden" in call.args]
        key = root.object, name
        last, rows = self._rows.get(key, (-1, 0))
        if not numbers:
            self._rows.pop(key, None)
            return
        rows = rows + 1 if numbers[0] != last and not adapts else 0
        self._rows[key] = numbers[-1], rows
        wrong = rows >= _PASSES
        kind = str((calls[0].args or {}).get("type"))
        yield Example(
            (),
            not wrong,
            {"type": kind},
            variables=(kind, root.object) if wrong else (),
            expected="a layer that is kept",
            seen=f"another {kind} in each of {rows} passes" if wrong else None,
            call=root,
            detail=f"{root.object} makes a {kind} anew in each forward pass, whose weights are never trained"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1, None, None, None)
        yield _run(1, 2, 3, 4, inner=("backward",))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1, 2, 3, 4)


def _run(*numbers: int | None, inner: tuple[str, ...] = ()) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    for number in numbers:
        hidden = {} if number is None else {"hidden": number}
        layer = ("module Linear", {"args": {"type": "Linear", "training": True, **hidden}})
        forward = ("forward model", {"inside": (layer, *inner)})
        windows.append(mini.window(forward, "backward", "step optimizer0:SGD"))
    return windows
