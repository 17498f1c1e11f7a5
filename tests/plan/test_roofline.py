"""The operators of a plan beneath the roofs of its GPU: held against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.plan.request import Request
from preflight.plan.roofline import roofline_of

Asked = Callable[..., Request]


def test_products_of_a_step_have_six_operations_for_each_weight_and_token(asked: Asked) -> None:
    request = asked("7", "32", gpus=8, strategy="data_parallel", micro_batch=1)
    model = request.model
    roof = roofline_of(request)
    assert roof is not None
    assert model.layers
    assert model.hidden
    assert model.ffn
    # Four square matrices of attention and three of a gated feed-forward layer; 4 samples of a step on each GPU.
    weights = model.layers * (4 * model.hidden**2 + 3 * model.hidden * model.ffn)
    tokens = 4 * (request.run.sequence_length or 0)
    products = sum(one.flop for one in roof.points if one.operator != "attention")
    assert products == pytest.approx(6 * weights * tokens)
    behind = sum(one.flop for one in roof.points if one.operator != "attention" and one.phase == "backward")
    assert behind == pytest.approx(4 * weights * tokens)


def test_tensor_parallel_divides_the_work(asked: Asked) -> None:
    alone, eight = (
        roofline_of(asked("7", "8", gpus=gpus, strategy=strategy, micro_batch=1))
        for gpus, strategy in ((1, None), (8, "tensor_parallel"))
    )
    assert alone is not None
    assert eight is not None
    assert sum(one.flop for one in eight.points) == pytest.approx(sum(one.flop for one in alone.points) / 8)


def test_nothing_is_above_its_roof(asked: Asked) -> None:
    for model in (["7", "64"], ["transformer_encoder", "0.3", "64"], ["moe", "47", "64"]):
        roof = roofline_of(asked(*model, gpus=8, strategy="data_parallel", micro_batch=2))
        assert roof is not None
        peak = next(iter(roof.peaks.values()))
        for one in roof.points:
            assert one.flop / one.seconds < min(peak, roof.bandwidth * one.flop / one.bytes)


def test_a_network_of_which_no_formula_knows_has_none(asked: Asked) -> None:
    assert roofline_of(asked("cnn", "0.025", "256", gpus=8)) is None
