"""What is said of a trace that misses something: of what was thinned again and again the last word."""

from __future__ import annotations

from preflight.monitor.outcome import _remarks, _thinned
from preflight.vocabulary.trace import TraceGap


def _thinner(iteration: int, part: str, pid: int = 7) -> TraceGap:
    text = f"rank 0 recorded {part} in 1 of {iteration} iterations"
    return TraceGap(what="thinned", text=text, rank=0, pid=pid, iteration=iteration, part=part)


def test_the_last_thinning_of_each_part_is_told_once() -> None:
    damage = TraceGap(what="damage", text="the end of a file is cut off")
    gaps = [_thinner(16, "detail"), _thinner(32, "detail"), damage, _thinner(64, "detail"), _thinner(80, "norms")]
    assert _remarks(gaps) == [
        "the end of a file is cut off",
        "rank 0 recorded detail in 1 of 64 iterations (thinned 2 times before)",
        "rank 0 recorded norms in 1 of 80 iterations",
    ]
    assert _thinned(gaps) == "4 times, see the remarks"
    assert _thinned(gaps[:1]) == "once, see the remarks"
    assert _thinned([damage]) == "nothing"


def test_every_process_has_its_own_last_word() -> None:
    assert len(_remarks([_thinner(16, "detail"), _thinner(16, "detail", pid=8)])) == 2
