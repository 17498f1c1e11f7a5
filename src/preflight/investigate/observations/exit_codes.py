"""How processes ended: a peer that is gone has an exit code of its own, or was killed."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.course.endings import signal_of
from preflight.investigate.culprit.exit_code import stopped
from preflight.investigate.culprit.silence import silent_ranks
from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.investigate.rank_evidence import ranks_written
from preflight.vocabulary.incident import Quote

_MEANING = {
    9: ("was killed (SIGKILL)", {"peer-dead": 2.0}),
    11: ("crashed in native code (SIGSEGV)", {"peer-dead": 2.0, "native-crash": 2.0, "extension-crash": 1.5}),
    7: ("had a bus error (SIGBUS)", {"peer-dead": 2.0, "shm-too-small": 2.0, "shm-full": 2.0}),
    4: ("met an instruction that its processor does not have (SIGILL)", {"illegal-instruction": 3.0, "peer-dead": 1.0}),
}


def observe(scene: Scene) -> Iterator[Observation]:
    """Look for processes that ended by themselves before anybody stopped them."""
    told: set[int] = set()
    for ending in scene.case.endings:
        code = ending.code
        signal = signal_of(code) if code is not None else None
        if signal not in _MEANING or signal in told:
            continue
        told.add(signal)
        words, odds = _MEANING[signal]
        who = f"rank {ending.about.rank}" if ending.about.rank is not None else "a process"
        quotes: tuple[Quote, ...] = ()
        if ending.file is not None and ending.line is not None:
            quotes = (Quote(scene.case.path(ending.file), ending.line, ending.message or f"exit code {code}"),)
        yield Observation(text=f"{who} {words}", odds=odds, quotes=quotes)
    alive = sorted(set(silent_ranks(scene)) & stopped(scene)) if scene.waited else []
    if alive:
        text = f"{ranks_written(alive)} had not ended: the launcher stopped {'it' if len(alive) == 1 else 'them'}"
        yield Observation(text=text, odds={"peer-dead": -2.0})
