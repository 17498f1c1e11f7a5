"""Rates and the bytes of a step: held against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.plan.advise.attention import attention_of
from preflight.plan.bandwidth import moved_per_step, rates_of
from preflight.plan.request import Request

Asked = Callable[..., Request]


def test_data_parallel_sends_every_gradient_twice_but_its_own_share(asked: Asked) -> None:
    request = asked("7", "32", gpus=8, strategy="data_parallel")
    # An all-reduce of 7e9 gradients over 8 ranks: 2 x 7/8 x 7e9 x bytes of a gradient.
    moved = moved_per_step(request)
    assert set(moved) == {"dp"}
    assert moved["dp"] / (2 * 7 / 8 * 7e9) == pytest.approx(4.0, rel=0.01)


def test_tensor_parallel_sends_the_stream_four_times_a_block_and_pass(asked: Asked) -> None:
    request = asked("7", "8", gpus=8, strategy="tensor_parallel")
    model, run = request.model, request.run
    assert model.layers
    assert model.hidden
    stream = 8 * (run.sequence_length or 0) * model.hidden * 2
    assert moved_per_step(request)["tp"] == pytest.approx(model.layers * 2 * 2 * 2 * 7 / 8 * stream)


def test_no_rate_is_above_what_is_promised(asked: Asked) -> None:
    for gpus, strategy in ((1, None), (8, "fsdp"), (64, "fsdp"), (16, "pipeline_parallel")):
        options = {"gpus": gpus, "strategy": strategy} if strategy else {"gpus": gpus}
        rates = rates_of(asked("7", "64", **options))
        assert len(rates) == (3 if gpus == 1 else 4 if gpus <= 8 else 5)
        for rate in rates:
            assert 0 < rate.used <= rate.promised


def test_scores_that_are_written_out_grow_with_the_square_of_the_length(asked: Asked) -> None:
    extra = []
    for length in (1024, 2048, 4096):
        said = attention_of(asked("1", "4", sequence_length=length))
        assert said is not None
        extra.append(said.written_bytes - said.flash_bytes)
    assert 3.0 < extra[1] / extra[0] < 4.5
    assert 3.5 < extra[2] / extra[1] < 4.2
