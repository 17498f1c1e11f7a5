"""What the recorder tells of the gradients of a mean that was drawn from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

Normal = torch.distributions.Normal
pytestmark = pytest.mark.torch


def offs(draw: str, by_hand: bool = False, **settings: Any) -> list[float]:
    torch.manual_seed(0)
    encoder, decoder = torch.nn.Linear(6, 8), torch.nn.Linear(4, 6)
    x = torch.randn(10, 6)
    with recorded(**settings) as kept:
        mean, deviation = encoder(x).chunk(2, 1)
        given = Normal(mean, deviation.exp())
        answer = decoder(getattr(given, draw)())
        pull = (mean**2).mean() if by_hand else torch.distributions.kl_divergence(given, Normal(0.0, 1.0)).mean()
        (((answer - x) ** 2).mean() + pull).backward()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "sample.off"]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_sample_without_a_graph_leaves_a_mean_the_pull_towards_zero_alone(by_hand: bool) -> None:
    (off,) = offs("sample", by_hand)
    assert off < 1e-5


def test_a_sample_with_a_graph_is_not_looked_at() -> None:
    assert offs("rsample") == []


@pytest.mark.parametrize("advantage", [0.0, 1.0])
def test_nothing_is_told_of_what_an_agent_draws_and_asks_the_probability_of(advantage: float) -> None:
    policy = torch.nn.Linear(6, 4)
    with recorded() as kept:
        mean = policy(torch.randn(10, 6))
        given = Normal(mean, 1.0)
        action = given.sample()
        (-(given.log_prob(action).sum(1) * advantage).mean() + (mean**2).mean()).backward()
    assert not [row for row in kept.table("scalar") if row["name"] == "sample.off"]


def test_draws_are_the_same_and_the_method_is_put_back() -> None:
    mean = torch.nn.Linear(3, 20)(torch.ones(3))
    original, asked = Normal.sample, Normal.log_prob
    torch.manual_seed(1)
    plain = Normal(mean, 1.0).sample()
    torch.manual_seed(1)
    with recorded():
        assert torch.equal(Normal(mean, 1.0).sample(), plain)
    assert (Normal.sample, Normal.log_prob) == (original, asked)


def test_a_draw_in_a_compiled_function_stays_in_its_graph() -> None:
    network = torch.nn.Linear(6, 8)

    def drawn(x: Any) -> Any:
        mean, deviation = network(x).chunk(2, 1)
        drawing = Normal(mean, deviation.exp(), validate_args=False)
        action = drawing.sample()
        return action * mean + drawing.log_prob(action)

    with recorded() as kept:
        compiled = torch.compile(drawn, backend="eager", fullgraph=True)
        compiled(torch.randn(10, 6)).sum().backward()
    assert not kept.table("trouble")


def test_nothing_is_told_where_it_is_not_wanted() -> None:
    assert offs("sample", needs=("scalar", "forward")) == []
