"""How long steps took, read from the log lines of trainers.

What is known: Megatron-LM's ``elapsed time per iteration (ms)``, torchtitan's ``tps`` (per GPU), nanoGPT's ``time 135.1ms``,
progress bars (``1.23s/it``, ``3.2it/s``), and names with a unit or a meaning of their own in any ``name: value`` or
``name=value`` form. Steps before the run is warm are left out: what counts is the median of the second half.
"""

from __future__ import annotations

import re
import statistics

import msgspec

from preflight.errors import UsageError

_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
_IS = r"[\"']?\s*[:=]\s*"
# (what, factor to seconds or to units per second, pattern); the first that matches a line speaks for it.
_PATTERNS = tuple(
    (what, factor, re.compile(pattern, re.IGNORECASE))
    for what, factor, pattern in (
        ("seconds", 1e-3, rf"elapsed time per iteration \(ms\){_IS}{_NUMBER}"),
        ("seconds", 1e-3, rf"(?:step|iter|iteration|batch)[_ /-]?time(?:[_ ]?\(?ms\)?|_ms){_IS}{_NUMBER}"),
        ("seconds", 1e-3, rf"(?:step|iter|iteration|batch)[_ /-]?time{_IS}{_NUMBER}\s*ms"),
        ("seconds", 1.0, rf"(?:step|iter|iteration)[_ /-]?(?:time|seconds|duration)(?:[_ ]?\(?s(?:ec|econds)?\)?)?{_IS}{_NUMBER}"),
        ("seconds", 1.0, rf"(?:time|seconds)[_ ](?:per|/)[_ ](?:step|iter|iteration){_IS}{_NUMBER}"),
        ("tokens_per_gpu", 1.0, rf"(?:tokens?[_ /]?(?:per)?[_ /]?sec(?:ond)?|tokens[_ ]per[_ ]second|tgs)[_ /]?(?:per[_ ])?(?:gpu|device){_IS}{_NUMBER}"),
        ("tokens_per_gpu", 1.0, rf"\btps{_IS}{_NUMBER}"),
        ("tokens", 1.0, rf"(?:tokens?[_ /]?(?:per)?[_ /]?s(?:ec(?:ond)?)?|tokens[_ ]per[_ ]second|tok/s){_IS}{_NUMBER}"),
        ("samples", 1.0, rf"samples?[_ /]?(?:per)?[_ /]?s(?:ec(?:ond)?)?{_IS}{_NUMBER}"),
        ("steps", 1.0, rf"(?:steps|iterations)[_ /]?(?:per)?[_ /]?s(?:ec(?:ond)?)?{_IS}{_NUMBER}"),
        ("seconds", 1e-3, rf"\btime {_NUMBER}\s*ms"),
        ("seconds", 1.0, rf"{_NUMBER}\s*s/it\b"),
        ("steps", 1.0, rf"{_NUMBER}\s*it/s\b"),
    )
)  # fmt: skip


class Reading(msgspec.Struct, frozen=True):
    """What a log says of the speed of a run.

    Attributes:
        what: ``seconds`` of a step, ``steps`` a second, ``samples`` or ``tokens`` a second of all GPUs, or
            ``tokens_per_gpu`` a second of one.
        value: The median of the second half of the lines.
        lines: How many lines said it.
        allocated: The most bytes that a rank had allocated on its GPU, where that was recorded.
        reserved: The most that its allocator held.
    """

    what: str
    value: float
    lines: int
    allocated: float | None = None
    reserved: float | None = None

    def seconds(self, samples: float, length: float, gpus: int) -> float:
        """Return the seconds of a step of so many samples of a length on so many GPUs."""
        work = {"seconds": 0.0, "steps": 1.0, "samples": samples, "tokens": samples * length}
        if self.what == "seconds":
            return self.value
        return work.get(self.what, samples * length / gpus) / self.value


def read_log(text: str, name: str) -> Reading:
    """Return what the lines of a log say of the speed of a run.

    The kind of figure that most lines have counts; the first of the list among equals.

    Raises:
        UsageError: No line speaks of it.
    """
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        for what, factor, pattern in _PATTERNS:
            match = pattern.search(line)
            if match is not None:
                value = float(match.group(1).replace(",", "")) * factor
                if value > 0:
                    found.setdefault(what, []).append(value)
                break
    if not found:
        raise UsageError(
            f"{name}: no line says how long a step takes",
            "lines such as 'step_time: 1.23', 'tps: 7,000' or 'elapsed time per iteration (ms): 812.5' are read",
        )
    what = max(found, key=lambda kind: len(found[kind]))
    values = found[what]
    return Reading(what, statistics.median(values[len(values) // 2 :]), len(values))
