"""What is seen of a running job and of the machine under it: who lives, what was measured, what differs between ranks."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.finding import Scalar

Pulse = Literal[
    "alive",  # its heart beats
    "left",  # it said goodbye
    "stalled",  # its heart beats, its steps do not go on
    "silent",  # its heart has stopped, and nobody can look at its process
    "stopped",  # its process is there and is stopped (SIGSTOP, a debugger)
    "frozen",  # its process is there and runs or waits, its heart does not beat: a lock is held, or the kernel holds it
    "gone",  # its process is not there any more
    "absent",  # it was never heard of
]
Outcome = Literal["done", "failed", "timeout", "skipped"]


class RankPulse(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whether a rank lives, as far as can be told from outside.

    Attributes:
        rank: The rank.
        state: What is known of it.
        node: Name of its host, where it said so.
        pid: Its process there.
        step: The last step that it told of.
        silent_seconds: For how long, at least, nothing was heard of it.
        seen_by: Who looked at its process: a rank of the same node, or ``observer``.
        reason: What was seen, in one sentence.
    """

    rank: int
    state: Pulse
    node: str | None = None
    pid: int | None = None
    step: int | None = None
    silent_seconds: float | None = None
    seen_by: str | None = None
    reason: str = ""

    @property
    def lost(self) -> bool:
        """Whether others would wait for it in vain."""
        return self.state not in ("alive", "left")

    @property
    def lives(self) -> bool:
        """Whether it is there: a rank that makes no step lives."""
        return self.state in ("alive", "left", "stalled")


class Measurement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that a probe measured, on one rank.

    Attributes:
        probe: The probe: ``compute``, ``collectives`` ...
        name: What was measured: ``backward``, ``all_reduce 1 MiB``.
        unit: ``s``, ``byte/s``, ``FLOP/s`` ...
        better: Whether a smaller or a larger value is the better one.
        outcome: How it went; a value is there only where it is ``done``.
        value: The median of the repeats.
        low: Lower end of an interval of 95 % for the median. high: Upper end.
        repeats: How many repeats were counted, warm-up apart.
        rank: The rank it was measured on. node: Its host. peer: The other end, where there is one.
        details: Numbers that belong to it.
        reason: Why there is no value, or what it means.
    """

    probe: str
    name: str
    unit: str
    better: Literal["smaller", "larger"]
    outcome: Outcome = "done"
    value: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 0
    rank: int | None = None
    node: str | None = None
    peer: int | None = None
    details: dict[str, Scalar] = {}
    reason: str | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A value that is not the same on all ranks.

    Attributes:
        key: What differs: ``torch.version``, ``environment.NCCL_IB_HCA``.
        usual: The value of most.
        usual_ranks: How many have it.
        unusual: The other values, each with its ranks.
        weight: How much it matters: ``error``, ``warning``, ``info``.
        reason: Why it matters.
    """

    key: str
    usual: str
    usual_ranks: int
    unusual: dict[str, tuple[int, ...]]
    weight: Literal["error", "warning", "info"] = "warning"
    reason: str = ""
