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
    words = _words(key)
    return bool(_COUNTED & {*words}) and all(word in _COUNTED or word in _BESIDE for word in words)


def fallen(before: Call, after: Call) -> list[str]:
    """Counters that begin anew in the later one of two checkpoints: none of them has come half as far again.

    None where another whole number is higher, another stage is told, or the epoch is the same: then a shorter count is one
    within the epoch, or the epoch that was broken off is gone through once more.
    """
    old, new = told_of(before).get("counts") or {}, told_of(after).get("counts") or {}
    both = [key for key in old if key in new]
    if _stages(before) != _stages(after) or any(new[key] > old[key] for key in both):
        return []
    if any(new[key] == old[key] and "epoch" in _words(key) and is_counter(key) for key in both):
        return []
    return [key for key in both if new[key] < old[key] and new[key] * 2 <= old[key] and is_counter(key)]


def risen(before: Call, after: Call) -> list[str]:
    """Counters that are higher in the later one of two checkpoints of one stage, where none is lower."""
    old, new = told_of(before).get("counts") or {}, told_of(after).get("counts") or {}
    both = [key for key in old if key in new and is_counter(key)]
    if _stages(before) != _stages(after) or any(new[key] < old[key] for key in both):
        return []
    return [key for key in both if new[key] > old[key]]


def takes_place(before: Call, after: Call) -> bool:
    """Whether a file is written under the name of another, or under one that differs in numbers alone, none of them higher."""
    pairs = zip(_numbers(_file(before)), _numbers(_file(after)), strict=False)
    return same_series(before, after) and all(now <= then for then, now in pairs)


def same_series(before: Call, after: Call) -> bool:
    """Whether a file has the name of another, but for numbers, and lies in the same folder."""
    old, new = _file(before), _file(after)
    return bool(old and new) and _form(old) == _form(new) and old.rpartition("/")[0] == new.rpartition("/")[0]


def numbered_alike(before: Call, after: Call) -> bool:
    """Whether the numbers in which the names of two files differ count what their counters do, as far as by one."""
    pairs = list(zip(_numbers(_file(before)), _numbers(_file(after)), strict=False))
    apart = [(old, new) for old, new in pairs if old != new]
    return all(_counts(before, old) and _counts(after, new) for old, new in apart)


def _counts(call: Call, number: int) -> bool:
    counts = told_of(call).get("counts") or {}
    return any(is_counter(key) and abs(count - number) <= 1 for key, count in counts.items())


def _stages(call: Call) -> dict[str, Any]:
    return told_of(call).get("stages") or {}


def _words(key: str) -> list[str]:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().split("_")


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
