"""What the scheduler says of the job: preempted, out of time, out of memory, a node that failed."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_STATES = {
    "PREEMPT": {"preempted": 4.0, "signal-from-outside": -1.0},
    "TIMEOUT": {"time-limit": 4.0},
    "DEADLINE": {"time-limit": 3.0},
    "NODE_FAIL": {"node-lost": 4.0, "peer-dead": 1.0, "device-fault": 0.5},
    "OUT_OF_ME": {"host-out-of-memory": 3.0, "cgroup-limit": 4.0},
    "OOMKILLED": {"host-out-of-memory": 2.0, "cgroup-limit": 4.0},
    "EVICTED": {"node-pressure": 4.0, "preempted": 1.0},
    "CANCELLED": {"signal-from-outside": 2.0},
}


def observe(scene: Scene) -> Iterator[Observation]:
    """Read the states of jobs, steps and pods."""
    told = set()
    for event in scene.case.reading.events:
        if event.kind not in ("job-state", "pod-state"):
            continue
        words = " ".join(str(value) for value in (*event.values.values(), event.meaning)).upper()
        for state, odds in _STATES.items():
            if state in words and state not in told:
                told.add(state)
                text = f"the scheduler says: {event.meaning or event.hit.text[:120]}"
                yield Observation(text=text, odds=odds, quotes=(scene.case.quote(event.hit),))
