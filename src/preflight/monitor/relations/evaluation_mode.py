"""Evaluation happens in evaluation mode."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_MOST = 256
"""Passes that are kept until it is known whether a backward pass follows."""


class EvaluationMode(Relation):
    """A model that is being trained is evaluated in evaluation mode.

    An evaluation is a row of forward passes without gradients of a model whose parameters an optimizer owns, in an
    iteration that the training itself does not have as a rule: passes without gradients that belong to every step
    (targets, teachers, rollouts of each step) are not judged, nor are passes over the batches of the loader that
    feeds the training (statistics that are estimated anew), nor statistics whose momentum is one for these passes.
    A part of the model that the evaluation calls by itself, an encoder before a search, is judged as the model is.
    So is a copy of it that no optimizer holds, an average of its weights, in passes over a loader.
    Passes with gradients are an evaluation, too, where several in a row are made of batches of a loader that feeds no
    training, and no backward pass comes before the next batch of one that does.
    It is broken where dropout is active in these passes, or running statistics follow what is evaluated on.
    """

    name = "evaluation-mode"
    midway = True
    needs = frozenset({"forward", "step"})
    wakes = frozenset({"forward", "fetch", "loop", "backward", "autograd.grad"})
    repeats = 2
    looks = frozenset({"forward", "backward", "fetch", "loop", "autograd.grad"})
    whole = False
    severity = "warning"
    priority = 14
    cause = "model.eval() is missing before the evaluation, or its mode is set from the wrong condition"
    advice = "call model.eval() before the evaluation and model.train() after it"

    def __init__(self) -> None:
        self._trained: dict[str, int] = {}
        self._beside: dict[str, int] = {}
        self._feeding: set[str] = set()
        self._loader = ""
        # Passes with gradients on batches of loaders that feed no training, with the number of the batch.
        self._unused: list[tuple[Call, str, int]] = []
        self._batches = 0
        self._copies: dict[str, str] = {}  # by root that is not trained: the trained one that it is a copy of, if any
        # Which models were trained in the last two windows, and whether there were passes without gradients.
        self._before: tuple[set[str], bool] = set(), False
        self._now: tuple[set[str], bool] = set(), False

    def quiet(self, window: Window) -> bool:
        """Whether it is known which passes are an evaluation: of those without gradients it counts how often they come.

        Where they came in less than half of the steps so far, and come in one window alone between such as train the same
        model, they go on to: it sleeps through them only where at least two such windows follow.
        """
        names = {call.object for call in window.named("forward") if not (call.context or "").startswith("grad")}
        if self._unused:
            return False
        if not names:
            return True
        alone = not self._before[1] and {name.split(".")[0] for name in names} <= self._before[0] & self._now[0]
        return alone and not any(self._part_of_training(name) for name in names)

    def slept(self, window: Window, times: int) -> None:
        """Count the passes."""
        trained, blocks = self._passes(window)
        self._count(trained, blocks, times)

    def see(self, window: Window) -> Iterator[Example]:
        trained, blocks = self._passes(window)
        for name, passes in blocks.items():
            yield from self._judge(name, passes)
        self._count(trained, blocks, 1)

    def _count(self, trained: set[str], blocks: Collection[str], times: int) -> None:
        self._before, self._now = self._now, (_roots(trained), bool(blocks))
        for root in _roots(trained):
            self._trained[root] = self._trained.get(root, 0) + times
        for name in blocks:
            self._beside[name] = self._beside.get(name, 0) + times

    def _part_of_training(self, name: str) -> bool:
        """Whether passes without gradients belong to the training, or that is not to be told yet."""
        root = name.split(".")[0]
        steps, beside = self._trained.get(self._copies.get(root) or root, 0), self._beside.get(name, 0)
        return steps < 3 or 2 * beside >= steps

    def _passes(self, window: Window) -> tuple[set[str], dict[str, list[tuple[Call, str]]]]:
        """Which models are trained, and passes that teach nothing, each with the loader that gave the last batch."""
        owned = window.run.trainable()
        blocks: dict[str, list[tuple[Call, str]]] = {}
        trained: set[str] = set()
        for call in window.plain:
            if call.name in ("fetch", "loop"):
                self._loader = call.object
                if self._loader in self._feeding:
                    for one, loader in self._several():
                        blocks.setdefault(one.object, []).append((one, loader))
                self._batches += 1
            elif call.name in ("backward", "autograd.grad"):
                self._unused.clear()
                if self._loader:
                    self._feeding.add(self._loader)
            elif call.name == "forward" and call.object.split(".")[0] in owned:
                if (call.context or "").startswith("grad"):
                    trained.add(call.object)
                    if self._loader and self._loader not in self._feeding:
                        self._unused.append((call, self._loader, self._batches))
                        del self._unused[:-_MOST]
                else:
                    blocks.setdefault(call.object, []).append((call, self._loader))
            elif call.name == "forward" and self._loader and self._original(call.object, window):
                blocks.setdefault(call.object, []).append((call, self._loader))
        return trained, blocks

    def _several(self) -> list[tuple[Call, str]]:
        """The passes with gradients that nothing came of, where they were made of several batches of one loader."""
        found, self._unused = self._unused, []
        alone = len({loader for _, loader, _ in found}) == 1 and len({batch for *_, batch in found}) > 1
        return [(call, loader) for call, loader, _ in found] if alone else []

    def _original(self, name: str, window: Window) -> str:
        """The trained model that one which no optimizer holds is a copy of, by the names and shapes of its parameters."""
        root = name.split(".")[0]
        if root not in self._copies:
            alike = window.run.alike(root)
            if alike is None:
                return ""  # not known yet
            self._copies[root] = alike
        return self._copies[root]

    def _judge(self, name: str, passes: list[tuple[Call, str]]) -> Iterator[Example]:
        if self._part_of_training(name):
            return
        judged = [
            call
            for call, loader in passes
            if (call.args or {}).get("dropouts", 0) + (call.args or {}).get("norms", 0)
            and not (loader and loader in self._feeding)
        ]
        if not judged:
            return
        wrong = [call for call in judged if _active(call) and (call.args or {}).get("training")]
        told = (wrong[0].args or {}) if wrong else {}
        kinds = [word for word, key in (("dropout", "dropout"), ("running statistics", "norm")) if told.get(key)]
        yield Example(
            (),
            not wrong,
            {"model": name},
            variables=(name,),
            expected="evaluation mode in passes that teach nothing",
            seen=f"{len(wrong)} of {counted(len(judged), 'pass', 'passes')} with {' and '.join(kinds)} active"
            if wrong
            else None,
            call=wrong[0] if wrong else None,
            detail=f"{name} is evaluated in training mode" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run({"training": False, "dropouts": 1, "dropout": 0})
        yield _run({"training": True, "norms": 2, "norm": 2, "estimating": 2})
        yield _over_loaders(["fetch loader1", _LEARNING] * 2, training=False)
        yield _over_loaders(["fetch loader1", ("forward average", {"context": "nograd"})], training=False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run({"training": True, "dropouts": 1, "dropout": 1})
        yield _run({"training": True, "norms": 2, "norm": 2, "estimating": 1})
        yield _run({"training": True, "dropouts": 1, "dropout": 1}, part="model.encoder")
        yield _over_loaders(["fetch loader1", _LEARNING] * 2)
        yield _over_loaders(["fetch loader1", ("forward average", {"context": "nograd"})])


def _roots(names: set[str]) -> set[str]:
    """The models that the called modules are, or are parts of."""
    return {name.split(".")[0] for name in names}


def _active(call: Call) -> bool:
    told = call.args or {}
    return bool(told.get("dropout", 0)) or told.get("norm", 0) > told.get("estimating", 0)


def _run(evaluated: dict[str, object], part: str = "model") -> list[Window]:
    mini = Mini({"model.weight": {}})
    train = (
        ("forward model", {"args": {"training": True, "dropouts": 1, "dropout": 1}}),
        "backward",
        "step optimizer0:SGD",
    )
    windows = [mini.window(*train) for _ in range(4)]
    return [*windows, mini.window(*train, (f"forward {part}", {"args": evaluated, "context": "nograd"}))]


_LEARNING = ("forward model", {"context": "grad"})


def _over_loaders(evaluated: list[str | tuple[str, dict[str, Any]]], training: bool = True) -> list[Window]:
    """Six steps on batches of one loader, with passes before the last one, of which ``training`` says the mode."""
    mini = Mini({"model.weight": {}, "average.weight": {"optimizer": -1, "trainable": False}})
    drops = {"training": True, "dropouts": 1, "dropout": 1}
    told = drops if training else {"training": False, "dropouts": 1, "dropout": 0}
    train: list[Any] = ["fetch loader0", ("forward model", {"args": drops}), "backward", "step optimizer0:SGD"]
    rows = [row if isinstance(row, str) else (row[0], {**row[1], "args": told}) for row in evaluated]
    return [*(mini.window(*train) for _ in range(5)), mini.window(*rows), mini.window(*train)]
