"""A checkpoint to go on from holds the optimizer's state."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_KEEPING = (
    "Adam",
    "NAdam",
    "RAdam",
    "AdamW",
    "Adamax",
    "Adadelta",
    "Adagrad",
    "RMSprop",
    "Rprop",
    "Adafactor",
    "LBFGS",
)


class CheckpointComplete(Relation):
    """A checkpoint with the state of a scheduler or a scaler holds that of the optimizer too.

    Whoever saves where the schedule stands means to go on from there. Without the moments of the optimizer the
    resumed run begins with estimates of zero and full steps, and often gets worse before it gets better.
    Judged in programs whose optimizer keeps a state (Adam and its kin, or SGD with momentum).
    A file with weights alone is meant for something else, and is not judged.
    """

    name = "checkpoint-complete"
    category = "checkpoint"
    needs = frozenset({"save", "optimizer.new"})
    wakes = frozenset({"optimizer.new", "save"})
    whole = False
    severity = "warning"
    priority = 28
    cause = "the optimizer's state is missing from what is saved"
    advice = "save optimizer.state_dict() beside the scheduler's, and load it on resume"

    def __init__(self) -> None:
        self._keeps = False

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "optimizer.new":
                groups = (call.args or {}).get("groups", ())
                momentum = any(group.get("momentum") for group in groups)
                self._keeps = self._keeps or momentum or call.object.split(":")[-1] in _KEEPING
            if call.name != "save" or not self._keeps:
                continue
            parts = (call.args or {}).get("parts") or {}
            kinds = set(parts.values())
            if "model" not in kinds or not kinds & {"scheduler", "scaler"}:
                continue
            inner = any(kind in ("dict", "list") and "opt" in key.lower() for key, kind in parts.items())
            holds = inner or bool(kinds & {"optimizer", "optimizer without state"})
            yield Example(
                (),
                holds,
                {},
                variables=() if holds else tuple(parts)[:8],
                expected="the state of the optimizer beside that of the scheduler",
                seen=None if holds else ", ".join(f"{key} ({kind})" for key, kind in list(parts.items())[:8]),
                call=call,
                detail="" if holds else "The checkpoint says where the schedule stands and leaves out the optimizer",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _saved({"model": "model", "scheduler": "scheduler", "optimizer": "optimizer"})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _saved({"model": "model", "scheduler": "scheduler", "step": "number"})


def _saved(parts: dict[str, str]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    new = ("optimizer.new optimizer0:AdamW", {"args": {"groups": [{"lr": 0.1}]}})
    return [mini.window(new, ("save", {"args": {"kind": "dict", "parts": parts}}))]
