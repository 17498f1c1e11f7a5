"""What the cheap looks tell: samples that are one, evaluations that write, weights amidst an accumulation."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.collect.looks import alike, all_given  # noqa: E402
from preflight.monitor.collect.plain import plain_types  # noqa: E402

pytestmark = pytest.mark.torch


class Follows(torch.nn.Module):  # type: ignore[misc]
    """A network whose copy follows it in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.fast = torch.nn.Linear(4, 3)
        self.slow = copy.deepcopy(self.fast).requires_grad_(False)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            for one, other in zip(self.fast.parameters(), self.slow.parameters(), strict=True):
                other.mul_(0.9).add_(one, alpha=0.1)
        return self.fast(x) + self.slow(x)


class Rests(torch.nn.Module):  # type: ignore[misc]
    """Weights that are written to in each forward pass, and stay: new storage, one length, rows cut to a largest norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(6, 4, max_norm=0.1)
        self.laid = torch.nn.Linear(4, 3)
        self.even = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, numbers: Any) -> Any:
        self.laid.weight.data = self.laid.weight.data.clone()
        self.even.data = torch.nn.functional.normalize(self.even.data, dim=-1)
        with torch.no_grad():
            self.table.weight.mul_(2)
        return self.laid(self.table(numbers) @ self.even)


def train() -> None:
    model, table = Follows(), Rests()
    optimizer = torch.optim.SGD(model.fast.parameters(), lr=0.1)
    for _ in range(3):
        for _ in range(2):
            model(torch.randn(5, 4)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    table.eval()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(5, 4))
            model.fast(torch.randn(5, 4))
            table(torch.arange(6))


@pytest.fixture(scope="module")
def kept() -> Kept:
    with recorded() as kept:
        train()
    return kept


def test_an_evaluation_that_writes_is_told_with_the_names(kept: Kept) -> None:
    assert not kept.table("trouble")
    told = [(row["object"], row["value"]) for row in kept.table("scalar") if row["name"] == "written"]
    slow = [value for name, value in told if name.startswith("model.slow.")]
    assert len(slow) == 4  # of the weight and the bias in the second and the third pass
    assert min(slow) > 0.5
    assert {name: value for name, value in told if "slow" not in name} == {"table.laid.weight": 0, "table.even": 0}


def test_weights_that_no_optimizer_holds_are_seen_amidst_an_accumulation(kept: Kept) -> None:
    amidst = [row for row in kept.table("state") if row["moment"] == "accumulating" and row["what"] == "parameter"]
    before = [
        row
        for row in kept.table("state")
        if row["moment"] == "before_step" and row["what"] == "parameter" and row["extra"] == {"optimizer": -1}
    ]
    # What an optimizer holds is known from its first step on.
    assert [row["s"] for row in amidst] == [1, 2]
    assert [row["s"] for row in before] == [0, 1, 2]
    assert all(one["ids"] == before[0]["ids"] and one["bits"] for one in amidst)


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ([torch.arange(6.0).expand(4, 6)], [0]),
        ([torch.arange(24.0).view(4, 6), torch.arange(3).repeat(5, 1)], [1]),
        ([torch.ones(8, 5)], []),
        ([torch.ones(8, 1), torch.arange(8)], None),
        ([torch.arange(6.0).expand(3, 6)], None),
        ([torch.arange(3.0).repeat(5, 1).index_fill(0, torch.tensor([4]), 7.0)], []),
    ],
    ids=["expanded", "one of two", "a mask", "single numbers", "few samples", "the last one differs"],
)
def test_samples_that_are_one(tensors: list[Any], found: list[int] | None) -> None:
    plain_types(torch)  # a recorder knows them before it looks at anything
    assert alike(torch, tensors) == found


def test_arguments_that_may_have_been_given_by_name() -> None:
    assert all_given(torch.nn.Linear(2, 2), 1)
    assert not all_given(torch.nn.Bilinear(2, 2, 2), 1)
    assert not all_given(torch.nn.MultiheadAttention(4, 1), 3)
    assert not all_given(object(), 1)  # a compiled script has no function of that name


class Ranges(torch.nn.Module):  # type: ignore[misc]
    """Follows its data in every pass; counts them; and keeps one batch in a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("high", torch.ones(4))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("batch", torch.zeros(4), persistent=False)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.high.lerp_(x.amax(0), 0.1)
            self.seen += len(x)
            self.batch = x[0]
        return x * self.weight


def test_an_evaluation_that_moves_buffers_is_told_with_how_far_they_went() -> None:
    with recorded() as kept:
        model = Ranges().eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.rand(5, 4) + 1)
    assert not kept.table("trouble")
    rows = [row for row in kept.table("scalar") if row["name"] == "followed"]
    assert {(row["object"].split(".")[-1], row["value"] > 0) for row in rows} == {("high", True), ("seen", False)}


@pytest.mark.parametrize("computed", [True, False])
def test_weights_that_were_computed_are_told_with_the_pass(computed: bool) -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        weights = dict(net.named_parameters())
        moved = {name: one * 0.9 for name, one in weights.items()} if computed else weights
        torch.func.functional_call(net, moved, (torch.randn(4, 3),)).sum().backward()
    assert [row["args"].get("computed", False) for row in kept.calls("forward")] == [computed]
