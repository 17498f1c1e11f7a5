"""Groups of parameters of an optimizer: their rates and other settings, told when they change."""

from __future__ import annotations

from typing import Any

from .plain import empty
from .recorder import Recorder

NAMED = ("lr", "momentum", "weight_decay")
MOST_GROUPS = 64
_SWITCHES = ("amsgrad", "centered", "maximize", "nesterov")


class Groups:
    """Remembers the settings that were told of each group."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._settings: dict[int, list[tuple[Any, ...]]] = {}

    def tell(self, optimizer: Any, name: str, index: int) -> None:
        """Hand over the settings of the groups that have changed since they were last handed over."""
        recorder = self.recorder
        known = self._settings.setdefault(index, [])
        for number, group in enumerate(optimizer.param_groups[:MOST_GROUPS]):
            now = tuple(number_of(group.get(word)) for word in NAMED)
            before = known[number] if number < len(known) else (None,) * len(NAMED)
            for word, value, old in zip(NAMED, now, before, strict=True):
                if value is not None and (value != old or (recorder.detail and word == "lr")):
                    recorder.scalar(word, f"{name}.{number}", value)
            if number < len(known):
                known[number] = now
            else:
                known.append(now)


def options(group: Any) -> dict[str, Any]:
    """What else a group was set to, told once: which switches are on, and the factors of its averages."""
    found: dict[str, Any] = {"on": [word for word in _SWITCHES if group.get(word) is True]}
    factors = group.get("betas")
    if isinstance(factors, tuple) and all(isinstance(one, float) for one in factors):
        found["betas"] = list(factors)
    return found


def made_at_zero(optimizer: Any) -> bool:
    """Whether an optimizer was made with a rate of zero, which all of its groups have."""
    defaults = getattr(optimizer, "defaults", None)
    if not isinstance(defaults, dict) or number_of(defaults.get("lr")) != 0:
        return False
    return all(number_of(group.get("lr")) == 0 for group in optimizer.param_groups)


def held_at_zero(optimizer: Any) -> bool:
    """Whether a scheduler, which remembers the rate that it was given, keeps all groups of an optimizer at zero."""
    groups = optimizer.param_groups
    if number_of(groups[0].get("lr")) != 0 or any(number_of(group.get("lr")) != 0 for group in groups):
        return False
    return any((number_of(group.get("initial_lr")) or 0) > 0 for group in groups)


def marked(optimizer: Any) -> list[int]:
    """The groups with an option of the program's own that is true, where other groups have it false or not at all.

    So a program tells itself which groups to treat in another way, as with ``{"params": head, "fix_lr": True}``.
    """
    groups = optimizer.param_groups[:MOST_GROUPS]
    if len(groups) < 2:
        return []
    own = [{word for word in group if group[word] is True and word not in optimizer.defaults} for group in groups]
    shared = set.intersection(*own)
    return [number for number, words in enumerate(own) if words - shared]


def set_aside(optimizer: Any) -> list[str]:
    """Settings that were given to an optimizer of torch as attributes of its own, which it never reads, as ``optimizer.lr``.

    Left out are those that a group has, too, and the values that it was made with: a program may keep them there, to make
    the settings of the groups from.
    """
    if not type(optimizer).__module__.startswith("torch.optim"):
        return []
    held = vars(optimizer)
    return [
        word
        for word in sorted(optimizer.defaults.keys() & held.keys())
        if number_of(held[word]) not in (None, number_of(optimizer.defaults[word]))
        and all(number_of(group.get(word)) != number_of(held[word]) for group in optimizer.param_groups)
    ]


def rehearsed(optimizer: Any) -> bool:
    """Whether what an optimizer holds has no memory, so that its steps train nothing."""
    groups = optimizer.param_groups
    held: Any = groups[0]["params"] if groups else ()
    return bool(held) and empty(held[0])


def number_of(value: Any) -> float | None:
    """A setting as a number when it is one; a tensor is read only where that costs nothing."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if getattr(value, "numel", None) is not None and value.device.type == "cpu" and value.numel() == 1:
        return float(value)
    return None
