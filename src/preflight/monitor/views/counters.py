"""How far a run is, as the counters of a checkpoint tell, and which checkpoint is written in the place of which."""

from __future__ import annotations

import re
from typing import Any

from preflight.monitor.window import Call

_COUNTED = frozenset({"epoch", "step", "iteration", "iter", "update"})
_BESIDE = frozenset({"global", "current", "start", "last", "next", "train", "training", "trained", "completed"})
_ENDINGS = frozenset({"pt", "pth", "ckpt", "bin", "tar", "tmp", "temp", "part", "new"})


def told_of(call: Call) -> dict[str, Any]:
    """What a save, or a load that came back, told of its file."""
    return (call.args if call.name == "save" else call.result) or {}


def is_counter(key: str) -> bool:
    """Whether a key names how far a run is: ``epoch``, ``global_step``; not ``best_epoch``, ``warmup_steps``, ``num_epochs``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().split("_")
    return bool(_COUNTED & {*words}) and all(word in _COUNTED or word in _BESIDE for word in words)


def fallen(before: Call, after: Call) -> list[str]:
    """Counters that are lower in the later one of two checkpoints, where no whole number in it is higher."""
    old, new = told_of(before).get("counts") or {}, told_of(after).get("counts") or {}
    both = [key for key in old if key in new]
    if any(new[key] > old[key] for key in both):
        return []
    return [key for key in both if new[key] < old[key] and is_counter(key)]


def risen(before: Call, after: Call) -> list[str]:
    """Counters that are higher in the later one of two checkpoints, where none is lower."""
    old, new = told_of(before).get("counts") or {}, told_of(after).get("counts") or {}
    both = [key for key in old if key in new and is_counter(key)]
    return [] if any(new[key] < old[key] for key in both) else [key for key in both if new[key] > old[key]]


def takes_place(before: Call, after: Call) -> bool:
    """Whether a file is written under the name of another, or under one that differs in numbers alone, none of them higher."""
    old, new = _file(before), _file(after)
    return same_series(before, after) and all(
        now <= then for then, now in zip(_numbers(old), _numbers(new), strict=True)
    )


def same_series(before: Call, after: Call) -> bool:
    """Whether a file has the name of another, but for numbers, and lies in the same folder as far as both are told."""
    old, new = _file(before), _file(after)
    if not old or not new or _form(old) != _form(new):
        return False
    folders = zip(reversed(old.split("/")[:-1]), reversed(new.split("/")[:-1]), strict=False)
    return all(one == other for one, other in folders)


def _file(call: Call) -> str:
    words = str((call.args or {}).get("file") or "").replace("\\", "/").split("/")
    return "/".join(word for word in words if word != ".")


def _name(file: str) -> str:
    words = file.rpartition("/")[2].split(".")
    while len(words) > 1 and words[-1].lower() in _ENDINGS:
        words.pop()
    return ".".join(words)


def _form(file: str) -> str:
    return re.sub(r"\d+", "#", _name(file))


def _numbers(file: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", _name(file))]
