"""Loaders say of which data they have which part, and models whether their statistics were ever followed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from preflight.monitor.collect.orders import Numbers, facts  # noqa: E402

DATA = TensorDataset(torch.arange(100.0))


def test_parts_of_one_data_set_are_told_by_their_indices() -> None:
    numbers = Numbers()
    one, other = random_split(DATA, [60, 40])
    told = [facts(DataLoader(part, batch_size=4), numbers) for part in (one, other)]
    assert told[0]["base"] == told[1]["base"] == facts(DataLoader(DATA), numbers)["base"]
    assert sorted(told[0]["part"] + told[1]["part"]) == list(range(100))
    assert "part" not in facts(DataLoader(DATA), numbers)
    nested = facts(DataLoader(Subset(Subset(DATA, [9, 8, 7, 6]), [0, 2])), numbers)
    assert nested["part"] == [7, 9]
    sampled = facts(DataLoader(one, sampler=SubsetRandomSampler([0, 1])), numbers)
    assert sampled["part"] == sorted(one.indices[:2])


def test_a_tensor_may_be_the_data() -> None:
    numbers = Numbers()
    told = [facts(DataLoader(torch.zeros(4, 3), batch_size=2), numbers) for _ in range(2)]
    assert [one["samples"] for one in told] == [4, 4]


def test_samplers_tell_how_far_they_reach() -> None:
    numbers = Numbers()
    short = WeightedRandomSampler([0.5, 0.5], 100)
    batches = BatchSampler(short, 4, drop_last=False)
    assert facts(DataLoader(DATA, sampler=short), numbers)["reach"] == 2
    assert facts(DataLoader(DATA, batch_sampler=batches), numbers)["reach"] == 2
    assert facts(DataLoader(DATA, sampler=RandomSampler(Subset(DATA, range(20)))), numbers)["reach"] == 20
    assert "reach" not in facts(DataLoader(DATA, shuffle=True), numbers)
    assert "reach" not in facts(DataLoader(DATA, sampler=RandomSampler(range(20))), numbers)
    assert "reach" not in facts(DataLoader(torch.zeros(4, 3), shuffle=True), numbers)


class _Everywhere:
    """A program's own sampler, which draws without end."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(100, ()))


def test_the_order_is_that_of_the_sampler_of_batches() -> None:
    numbers = Numbers()

    def told(sampler: Any) -> dict[str, Any]:
        return facts(DataLoader(DATA, batch_sampler=BatchSampler(sampler, 4, drop_last=False)), numbers)

    assert told(_Everywhere())["order"] == "own"
    assert told(_Everywhere())["samples"] is None
    assert told(RandomSampler(DATA, replacement=True))["order"] == "drawn"
    assert told(RandomSampler(DATA))["order"] == "random"
    assert told(SequentialSampler(DATA))["order"] == "sequential"
    assert told(SubsetRandomSampler([3, 5]))["part"] == [3, 5]
    assert facts(DataLoader(DATA), numbers)["order"] == "sequential"


def test_a_plateau_tells_the_number_by_which_it_is_judged() -> None:
    with recorded() as kept:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
        plateau.step(7)
        plateau.step(metrics=0.5)
        plateau.step(torch.tensor(1.0))
    assert [call["args"].get("measure") for call in kept.calls("scheduler.step")] == [7.0, 0.5, None]


def test_of_large_data_every_loader_tells_the_same_sample() -> None:
    numbers, large = Numbers(), TensorDataset(torch.zeros(50_000))
    first = facts(DataLoader(Subset(large, range(30_000))), numbers)["part"]
    second = facts(DataLoader(Subset(large, range(20_000, 50_000))), numbers)["part"]
    assert 100 < len(first) < 600
    assert set(first) & set(second) == {one for one in first if one >= 20_000}


def evaluated(average_buffers: bool) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    ema = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4) + 3).square().sum().backward()
            optimizer.step()
            with torch.no_grad():
                for mean, now in zip(ema.parameters(), model.parameters(), strict=True):
                    mean.lerp_(now, 0.5)
                if average_buffers:
                    for mean, now in zip(ema.buffers(), model.buffers(), strict=True):
                        mean.copy_(now)
        with torch.no_grad():
            ema(torch.randn(8, 4))
    assert not kept.table("trouble")
    return [call["args"].get("untouched") for call in kept.calls("forward") if not call["args"]["training"]]


def test_statistics_that_were_never_estimated_are_told() -> None:
    assert evaluated(average_buffers=False) == [1]
    assert evaluated(average_buffers=True) == [0]


class Counted(list[int]):
    """Indices of which it is known whether they were read."""

    def __init__(self, count: int) -> None:
        super().__init__([0])
        self.count_ = count
        self.read = False

    def __len__(self) -> int:
        return self.count_

    def __iter__(self) -> Any:
        self.read = True
        return super().__iter__()


def test_indices_are_read_only_where_that_costs_little() -> None:
    numbers, large = Numbers(), Counted(200_001)
    told = facts(DataLoader(DATA, sampler=SubsetRandomSampler(large)), numbers)
    assert not large.read
    assert "part" not in told
    assert told["base"] == facts(DataLoader(DATA), numbers)["base"]
    away = torch.zeros(3, dtype=torch.int64, device="meta")  # as on any other device: not to be waited for
    assert "part" not in facts(DataLoader(DATA, sampler=SubsetRandomSampler(away)), numbers)
    assert "part" not in facts(DataLoader(Subset(DATA, away)), numbers)
    drawn = facts(DataLoader(DATA, sampler=SubsetRandomSampler(torch.tensor([4, 2]))), numbers)
    assert drawn["part"] == [2, 4]
