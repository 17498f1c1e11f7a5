"""A new optimizer in the middle of a run: its steps are counted, and what it begins with is looked at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch
SELDOM = {"detail_first": 0, "detail_every": 0, "norms_every": 1000}


def _train(net: Any, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()


def _counts(kept: Any, word: str) -> list[int]:
    return [row["s"] for row in kept.calls("step") if row["object"].startswith(word)]


def test_the_steps_of_an_optimizer_that_replaces_another_go_on_counting() -> None:
    net = torch.nn.Linear(3, 2)
    with recorded(**SELDOM) as kept:
        for _ in range(3):
            _train(net, torch.optim.SGD(net.parameters(), lr=0.01), 4)
    assert [row["s"] for row in kept.calls("step")] == list(range(12))
    assert kept.table("end")[-1]["i"] == 11


def test_one_that_is_kept_but_no_longer_steps_gives_up_the_count() -> None:
    net = torch.nn.Linear(3, 2)
    with recorded(**SELDOM) as kept:
        first, second = (torch.optim.SGD(net.parameters(), lr=0.01) for _ in range(2))
        _train(net, first, 4)
        _train(net, second, 30)
    assert _counts(kept, "optimizer0") == [0, 1, 2, 3]
    counted = _counts(kept, "optimizer1")
    assert counted[:16] == [4] * 16
    assert counted[16:] == list(range(4, 18))
    assert first is not None


def test_optimizers_that_take_turns_leave_the_count_to_the_first() -> None:
    net = torch.nn.Linear(3, 2)
    with recorded(**SELDOM) as kept:
        first, second = (torch.optim.SGD(net.parameters(), lr=0.01) for _ in range(2))
        for _ in range(4):
            _train(net, first, 1)
            _train(net, second, 10)
    assert _counts(kept, "optimizer0") == [0, 1, 2, 3]


def test_the_first_two_steps_of_each_optimizer_are_looked_at_however_seldom_others_are() -> None:
    net = torch.nn.Linear(3, 2)
    with recorded(**SELDOM) as kept:
        _train(net, torch.optim.Adam(net.parameters()), 5)
        _train(net, torch.optim.Adam(net.parameters()), 5)
    after = [row for row in kept.table("state") if row["moment"] == "after_step" and row["what"] == "parameter"]
    assert [row["i"] for row in after] == [0, 1, 5, 6]


def test_a_new_optimizer_is_followed_by_a_few_iterations_in_detail() -> None:
    net = torch.nn.Linear(3, 2)
    with recorded(detail_first=2, detail_every=0) as kept:
        for _ in range(7):
            _train(net, torch.optim.SGD(net.parameters(), lr=0.01), 6)
    before = [row for row in kept.table("state") if row["moment"] == "before_step" and row["what"] == "parameter"]
    detailed = {row["i"] for row in before if row["bits"] is not None}
    phases = [6, 12, 18, 24]  # the first four; later ones are as others
    assert detailed == {0, 1, *(begin + more for begin in phases for more in (1, 2, 3))}


@pytest.mark.parametrize("freed", [9, 14])
def test_what_is_freed_without_an_optimizer_is_looked_at_at_once_however_seldom_others_are(freed: int) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    net[0].requires_grad_(False)
    with recorded(detail_first=2, detail_every=14, norms_every=1000) as kept:
        optimizer = torch.optim.SGD(net[1].parameters(), lr=0.01)
        _train(net, optimizer, freed)
        net[0].requires_grad_(True)
        _train(net, optimizer, 6)
    looked = [row for row in kept.table("state") if row["what"] == "gradient" and row["moment"] == "before_step"]
    others = [row["i"] for row in looked if (row["extra"] or {}).get("optimizer") == -1]
    assert [i for i in others if i >= freed][:3] == [freed, freed + 1, freed + 2]


def test_a_layer_that_is_put_in_later_is_looked_at_some_steps_in_a_row_once_it_is_noticed() -> None:
    replaced = 14
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    with recorded(detail_first=2, detail_every=14, norms_every=1000) as kept:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        _train(net, optimizer, replaced)
        net[1] = torch.nn.Linear(3, 1)
        _train(net, optimizer, 6)
    looked = [row for row in kept.table("state") if row["what"] == "gradient" and row["moment"] == "before_step"]
    others = [row["i"] for row in looked if (row["extra"] or {}).get("optimizer") == -1]
    assert [i for i in others if i >= replaced][:3] == [replaced, replaced + 1, replaced + 2]
