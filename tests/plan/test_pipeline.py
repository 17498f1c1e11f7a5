"""The simulated pipeline: held against the closed forms of the papers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.plan.candidate import candidate
from preflight.plan.evaluate import evaluate
from preflight.plan.pipeline.orders import SCHEDULES, order_of
from preflight.plan.pipeline.simulate import simulate
from preflight.plan.request import Request


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("micro", [1, 4, 16])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_even_stages_wait_for_all_but_one(schedule: str, stages: int, micro: int) -> None:
    line = simulate([1.0] * stages, [2.0] * stages, micro, schedule)  # type: ignore[arg-type]
    assert line.seconds == pytest.approx((micro + stages - 1) * 3.0)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_interleaving_divides_the_bubble_by_the_chunks(chunks: int) -> None:
    stages, micro = 4, 16
    line = simulate([1.0] * stages, [2.0] * stages, micro, "interleaved", chunks)
    assert line.seconds == pytest.approx(micro * 3.0 + (stages - 1) * 3.0 / chunks)


def test_zero_bubble_waits_for_a_third() -> None:
    """Qi et al. 2023, table 1: (p - 1) (TF + TB - TW) against (p - 1) (TF + TB + TW) of 1F1B; here TF = TB = TW = 1."""
    stages, micro = 4, 16
    plain = simulate([1.0] * stages, [2.0] * stages, micro, "1f1b")
    line = simulate([1.0] * stages, [2.0] * stages, micro, "zb-h1")
    assert plain.seconds == pytest.approx(micro * 3.0 + (stages - 1) * 3.0)
    assert line.seconds == pytest.approx(micro * 3.0 + (stages - 1) * 1.0)
    assert line.in_flight == plain.in_flight


@pytest.mark.parametrize("stage", range(4))
def test_1f1b_holds_no_more_than_the_stages_behind(stage: int) -> None:
    line = simulate([1.0] * 4, [2.0] * 4, 16, "1f1b")
    assert line.in_flight[stage] == 4 - stage
    assert simulate([1.0] * 4, [2.0] * 4, 16, "gpipe").in_flight[stage] == 16


def test_interleaving_holds_what_the_formula_says() -> None:
    """Megatron: stage 0 of p stages with v chunks holds p (1 + (p - 1) / (p v)) micro-batches."""
    p, v = 4, 2
    line = simulate([1.0] * p, [2.0] * p, 16, "interleaved", v)
    assert line.in_flight[0] == pytest.approx(p * (1 + (p - 1) / (p * v)))


def test_interleaving_needs_a_multiple_of_the_stages() -> None:
    with pytest.raises(ValueError, match="no multiple"):
        order_of("interleaved", 0, 4, 6, 2)


@given(
    times=st.lists(st.tuples(st.floats(0.1, 5), st.floats(0.1, 5)), min_size=1, max_size=6),
    rounds=st.integers(1, 4),
    schedule=st.sampled_from(SCHEDULES),
    chunks=st.integers(1, 3),
    hop=st.floats(0, 1),
)
def test_no_stage_does_two_things_and_nothing_starts_before_its_input(
    times: list[tuple[float, float]], rounds: int, schedule: str, chunks: int, hop: float
) -> None:
    stages = len(times)
    forward, backward = [one for one, _ in times], [two for _, two in times]
    micro = rounds * stages
    line = simulate(forward, backward, micro, schedule, chunks, hop)  # type: ignore[arg-type]
    slowest = max(one + two for one, two in times) * micro
    assert line.seconds >= slowest - 1e-9
    for stage in range(stages):
        own = [span for span in line.spans if span.stage == stage]
        for before, after in pairwise(own):
            assert after.start >= before.end - 1e-9
        assert line.busy[stage] == pytest.approx((forward[stage] + backward[stage]) * micro)
    ends = {(span.stage, span.kind, span.micro, span.chunk): span.end for span in line.spans}
    for span in line.spans:
        if span.kind == "F" and span.stage:
            assert span.start >= ends[span.stage - 1, "F", span.micro, span.chunk] + hop - 1e-9
        if span.kind == "B":
            assert span.start >= ends[span.stage, "F", span.micro, span.chunk] - 1e-9


def test_the_step_has_the_bubble_of_its_schedule(asked: Callable[..., Request]) -> None:
    """The chosen layout's bubble is that of the simulated pipeline, of which a search takes the closed form."""
    request = asked("30", "64", gpus=4, strategy="pipeline_parallel")
    assert request.parallel is not None
    exact = candidate(request, request.parallel, request.run).step
    quick = evaluate(request.model, request.run, request.parallel, request.cluster).step
    assert exact is not None
    assert exact.breakdown is not None
    assert quick is not None
    assert exact.breakdown.bubble == pytest.approx(quick.bubble, rel=0.25)
    assert exact.breakdown.total == pytest.approx(quick.total, rel=0.02)
