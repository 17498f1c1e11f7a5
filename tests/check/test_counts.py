"""Products say how often something happens, and the worth of a test in the first pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.context import Context
from preflight.check.queries.counts import Product, symbol
from preflight.check.queries.schedules import length, paces, schedulers
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.source.values import Unknown

SCRIPT = """
import math, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(10, 2)
loader = DataLoader({data}, batch_size=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
epochs, k = 5, 4
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps={total})
for epoch in range(epochs):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
"""


def _context(data: str, total: str) -> Context:
    text = SCRIPT.format(data=data, total=total)
    return Context(read(parse(text.encode(), "train.py", Path("train.py"))), {})


@pytest.mark.parametrize(
    ("total", "ratio"),
    [
        ("epochs * len(loader) // k", 1.0),
        ("epochs * math.ceil(len(loader) / k)", 1.0),
        ("epochs * len(loader)", 0.25),
        ("len(loader) // k", 5.0),
    ],
)
def test_calls_over_length_where_the_length_is_a_symbol(total: str, ratio: float) -> None:
    context = _context("dataset", total)
    scheduler = schedulers(context)[0]
    found = length(context, scheduler)
    calls = paces(context, scheduler)[0].calls
    assert found is not None
    assert calls is not None
    assert calls.times(found[2], -1).number == pytest.approx(ratio)


def test_the_batches_of_a_known_data_set_are_counted() -> None:
    context = _context("TensorDataset(torch.randn(1000, 10), torch.zeros(1000))", "160")
    calls = paces(context, schedulers(context)[0])[0].calls
    assert calls is not None
    assert calls.number == pytest.approx(5 * 32 / 4)  # ceil(1000 / 32) = 32 batches in each of 5 epochs


def test_a_product_and_its_inverse_cancel() -> None:
    batches = symbol(Unknown("not known"), "batches", True)
    whole = Product(3).times(batches).times(batches)
    assert str(whole) == "3 x batches^2"
    assert whole.times(whole, -1).number == 1.0
    assert str(Product(6).times(batches, -1)) == "6 / batches"
