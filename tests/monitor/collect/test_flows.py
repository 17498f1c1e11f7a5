"""What a loss is computed by, as a whole: the same in every size, and another one where an operation is another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

Way = Callable[[Any], Any]


class Block(nn.Module):
    def __init__(self, width: int, middle: Way, dropout: float) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop, self.middle = nn.Dropout(dropout), middle

    def forward(self, x: Any) -> Any:
        query, key, value = self.inner(self.norm(x)).chunk(3, -1)
        return x + self.drop(self.outer(self.middle(query @ key.transpose(1, 2)) @ value))


class Model(nn.Module):
    def __init__(self, middle: Way, width: int = 8, layers: int = 3, dropout: float = 0.2) -> None:
        super().__init__()
        self.words, self.place = nn.Embedding(12, width), nn.Parameter(torch.zeros(1, 16, width))
        self.blocks = nn.ModuleList(Block(width, middle, dropout) for _ in range(layers))
        self.head = nn.Linear(width, 12)

    def forward(self, x: Any) -> Any:
        x = self.words(x) + self.place[:, : x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def weights(scores: Any) -> Any:
    return (scores / 3).softmax(-1)


def flows(
    middle: Way = weights, batch: int = 3, length: int = 7, times: int = 2, end: Way = lambda loss: loss, **sizes: Any
) -> list[Any]:
    """What the passes of a training tell."""
    torch.manual_seed(0)
    model = Model(middle, **sizes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(times):
            tokens = torch.randint(12, (batch, length))
            loss = end(functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [call["args"].get("flow") for call in kept.calls("backward")]


def test_a_flow_is_told_once_and_then_that_it_is_the_same() -> None:
    first, second = flows()
    assert "model.blocks.*.inner.bias,model.blocks.*.inner.weight" in first
    assert second == {}


@pytest.mark.parametrize(
    "other",
    [{"batch": 1}, {"length": 16}, {"length": 2}, {"width": 32}, {"layers": 5}, {"dropout": 0.0}],
    ids=lambda other: next(iter(other)),
)
def test_no_size_and_no_dropout_is_part_of_it(other: dict[str, Any]) -> None:
    assert flows(**other)[0] == flows()[0]


@pytest.mark.parametrize(
    "end",
    [lambda loss: loss / 4, lambda loss: 3 * loss.view(1).squeeze(), lambda loss: torch.tensor(8.0) * (0.5 * loss)],
)
def test_what_multiplies_or_divides_all_of_a_loss_is_no_part_of_it(end: Way) -> None:
    assert flows(end=end)[0] == flows()[0]


def test_what_is_done_with_a_loss_besides_is_part_of_it() -> None:
    assert flows(end=lambda loss: loss.exp() / 4)[0] != flows()[0]
    assert flows(end=lambda loss: loss * loss)[0] != flows()[0]


@pytest.mark.parametrize(
    "middle",
    [
        lambda scores: scores.softmax(-1),
        lambda scores: (scores / 3).softmax(-2),
        lambda scores: (scores / 3).detach().softmax(-1),
        lambda scores: (scores / 3).masked_fill(scores > 9, 0.0).softmax(-1),
        lambda scores: (scores / 3).sigmoid(),
    ],
)
def test_an_operation_more_or_less_or_along_another_axis_is_told(middle: Way) -> None:
    assert flows(middle)[0] != flows()[0]


def test_blocks_that_keep_their_inputs_packed_tell_nothing() -> None:
    def again(scores: Any) -> Any:
        run = torch.utils.checkpoint.checkpoint
        return run(lambda x: functional.dropout(x, 0.5).relu(), scores, use_reentrant=False)

    assert not any(flows(again))


def test_attention_is_one_operation_on_every_device_and_in_every_precision() -> None:
    def attends(scores: Any) -> Any:
        heads = scores.unsqueeze(1)
        return functional.scaled_dot_product_attention(heads, heads, heads).squeeze(1)

    told = " ".join(edge for edges in flows(attends)[0].values() for edge in edges)
    assert "ScaledDotProduct" in told
    assert not any(kernel in told for kernel in ("Flash", "Efficient", "Cudnn"))


def test_settings_of_a_loss_are_told_and_which_part_of_a_projection_is_taken() -> None:
    told = [edge for edges in flows()[0].values() for edge in edges]
    assert any("reduction=1 ignore_index=-100" in edge for edge in told)
    assert {"#0", "#1", "#2"} <= {edge[-2:] for edge in told}


@pytest.mark.parametrize("weight", [0.0, 0.3, -1.0, 1e-12, 250])
def test_of_what_is_multiplied_by_a_number_it_is_told_whether_that_is_zero(weight: float) -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(2):
            out = model(torch.randn(5, 4))
            (out.exp().mean() + weight * out.square().mean() + torch.tensor(0.0) * out.abs().mean()).backward()
            optimizer.step()
    weights = kept.calls("backward")[1]["args"].get("weights", {})
    assert list(weights.values()) == [bool(weight)], "of a number that a tensor holds nothing is told"
