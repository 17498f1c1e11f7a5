"""What the recorder tells of the rows that data sets hold, and of the weights that programs keep beside the trained ones."""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, x: Any) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index]


def rescaled(dataset: Any, change: Any, name: str = "stored.rescaled", loops: int = 3) -> list[float]:
    """What is told after each of some loops, but the last, over a data set that something changes in between."""
    loader = torch.utils.data.DataLoader(dataset, 16)
    with recorded() as kept:
        for _ in range(loops):
            list(loader)
            change(dataset)
    return [row["value"] for row in kept.table("scalar") if row["name"] == name]


def anew(dataset: Any) -> None:
    dataset.x = dataset.x * 2


CHANGES = [
    (lambda one: one.x.mul_(0.5).sub_(3), 1.0),
    (lambda one: one.x.div_(torch.arange(1.0, 6.0)), 1.0),  # column by column
    (lambda one: None, 0.0),
    (lambda one: one.x.normal_(), 0.0),  # other samples
    (lambda one: one.x.add_(torch.randn_like(one.x)), 0.0),  # noise
    (lambda one: one.x[:20].mul_(2), 0.0),  # some of them
]


@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_rows_that_were_scaled_where_they_lie_are_told(change: Any, told: float) -> None:
    assert rescaled(Rows(torch.randn(40, 5) + 4), change) == [told, told]


def masked(dataset: Any) -> None:
    at = int(torch.randint(0, 18, ()))
    dataset.x[:, at : at + 3] = 0.01 * torch.randn(40, 3)


WRITES = [
    (lambda one: one.x.add_(0.3 * torch.randn_like(one.x)), [20.0] * 3),
    (masked, [20.0] * 3),
    (lambda one: one.x.normal_(), [0.0] * 3),  # other samples
    (lambda one: one.x.copy_(CLEAN + 0.3 * torch.randn_like(CLEAN)), [20.0, 0.0, 0.0]),  # from what is kept elsewhere
    (lambda one: one.x[:20].add_(0.3 * torch.randn(20, 20)), [0.0] * 3),  # some of them
    (lambda one: one.x.mul_(0.5), [0.0] * 3),  # that is told otherwise
]
CLEAN = torch.randn(40, 20, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("change", "told"), WRITES)
def test_rows_that_are_written_into_and_go_away_from_what_they_were_are_told(change: Any, told: list[float]) -> None:
    torch.manual_seed(0)
    assert rescaled(Rows(CLEAN.clone()), change, "stored.written", loops=4) == told


def test_a_table_that_is_trained_is_not_looked_at() -> None:
    held = Rows(CLEAN.clone().requires_grad_())
    assert rescaled(held, lambda one: one.x.data.add_(torch.randn_like(CLEAN)), "stored.written") == []


def test_a_table_that_was_made_anew_is_another_one() -> None:
    assert rescaled(Rows(torch.randn(40, 5)), anew) == []


def test_rows_of_numpy_and_of_a_part_of_the_data_are_looked_at_too() -> None:
    held = Rows(numpy.random.default_rng(0).normal(size=(40, 5)).astype("float32"))
    assert rescaled(held, lambda one: one.x.__imul__(2)) == [1.0, 1.0]
    part = torch.utils.data.Subset(Rows(torch.randn(40, 5)), range(30))
    assert rescaled(part, lambda one: one.dataset.x.mul_(2)) == [1.0, 1.0]


class Counting(Rows):
    """Says how long it is, and draws and counts as it does."""

    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        torch.rand(1), random.random(), numpy.random.random()
        return len(self.x)


def drawn(dataset: Any, passes: int) -> list[float]:
    """What the shared generators draw next after passes over a data set, by batches that nobody asks it for."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=[list(range(at, at + 8)) for at in range(0, 40, 8)])
    for _ in range(passes):
        list(loader)
    return [float(torch.rand(1)), random.random(), numpy.random.random()]


def test_a_length_that_a_program_works_out_is_asked_for_seldom_and_leaves_no_draws() -> None:
    plain, asked = drawn(Counting(torch.randn(40, 5)), 5), []
    for passes in (1, 5):
        watched = Counting(torch.randn(40, 5))
        with recorded():
            seen = drawn(watched, passes)
        asked.append(watched.asked)
    assert seen == plain
    assert asked[0] == asked[1] > 0


@pytest.mark.filterwarnings("error")
def test_numpy_may_draw_from_another_generator_than_its_oldest() -> None:
    oldest = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(3))
    try:
        before = numpy.random.get_state(legacy=False)
        data = Counting(torch.randn(40, 5))
        with recorded() as kept:
            list(torch.utils.data.DataLoader(data, batch_sampler=[[0, 1], [2, 3]]))
        assert data.asked > 0
        assert numpy.random.get_state(legacy=False) == before
        assert not kept.table("trouble")
    finally:
        numpy.random.set_bit_generator(oldest)


def test_a_stream_is_not_asked_how_long_it_is() -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            raise AssertionError("it would read everything")

        def __iter__(self) -> Any:
            return iter(torch.zeros(8, 2))

    with recorded() as kept:
        for _ in torch.utils.data.DataLoader(Stream(), 2):  # list() would ask for a hint
            pass
    assert len(kept.calls("fetch")) == 5
    assert not kept.table("trouble")


def sums(keep: Any, move: Any) -> Kept:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shadow = keep(model)
    with recorded() as kept:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                move(shadow, model)
    assert shadow is not None
    return kept


def by_name(model: Any) -> dict[str, Any]:
    return {name: one.detach().clone() for name, one in model.named_parameters()}


def in_order(model: Any) -> list[Any]:
    return [one.detach().clone() for one in model.parameters()]


def averaged(shadow: Any, model: Any) -> None:
    kept = shadow.values() if isinstance(shadow, dict) else shadow
    for old, new in zip(kept, model.parameters(), strict=True):
        old.lerp_(new, 0.25)


@pytest.mark.parametrize("keep", [by_name, in_order])
def test_a_table_of_averages_is_told_with_what_it_follows(keep: Any) -> None:
    kept = sums(keep, averaged)
    rows = [row for row in kept.table("scalar") if row["name"].startswith("kept.")]
    told: dict[tuple[int, str, str], float] = {(row["i"], row["name"], row["object"]): row["value"] for row in rows}
    assert {name for _, _, name in told} == {"shadow#0.weight", "shadow#2.weight"}
    for name in ("shadow#0.weight", "shadow#2.weight"):
        old, new, fast = told[1, "kept.slow", name], told[2, "kept.slow", name], told[2, "kept.fast", name]
        assert (new - fast) / (old - fast) == pytest.approx(0.75, rel=1e-3)


def test_the_weights_themselves_and_tables_of_other_shapes_are_no_averages() -> None:
    for keep in (lambda model: dict(model.named_parameters()), lambda model: [torch.zeros(3, 3) for _ in range(4)]):
        kept = sums(keep, lambda shadow, model: None)
        assert not [row for row in kept.table("scalar") if row["name"].startswith("kept.")]


def test_names_that_two_networks_have_tell_of_no_copy() -> None:
    actor, critic = (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)) for _ in range(2))
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
    shadow = by_name(critic)
    with recorded() as kept:
        for _ in range(3):
            optimizer.zero_grad()
            (actor(torch.randn(2, 4)) + critic(torch.randn(2, 4))).sum().backward()
            optimizer.step()
            with torch.no_grad():
                averaged(shadow, critic)
    assert not [row for row in kept.table("scalar") if row["name"].startswith("kept.")]


class Twofold(torch.nn.Module):
    """A network of which one part is an average of another one; ``lists`` names both by numbers."""

    def __init__(self, lists: bool = False) -> None:
        super().__init__()
        parts = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)) for _ in range(2)]
        parts[1].load_state_dict(parts[0].state_dict())
        self.fast, self.slow = parts
        if lists:
            del self.fast, self.slow
            self.layers = torch.nn.ModuleList(parts)
        self.pair = parts[:1], parts[1:]
        parts[1].requires_grad_(False)


@pytest.mark.parametrize("lists", [False, True])
def test_a_part_of_a_model_that_is_an_average_of_another_part_is_told_with_it(lists: bool) -> None:
    torch.manual_seed(0)
    model = Twofold(lists)
    ((fast,), (slow,)) = model.pair
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(6):
            optimizer.zero_grad()
            (fast(torch.randn(8, 4)) - slow(torch.randn(8, 4))).square().sum().backward()
            optimizer.step()
            with torch.no_grad():
                for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                    old.lerp_(new, 0.25)
    told = {(row["i"], row["name"], row["object"]): row["value"] for row in kept.table("scalar")}
    names = {name for _, kind, name in told if kind.startswith("kept.")}
    if lists:
        assert not names  # layers of a list are no copies of each other
        return
    assert names == {"model.slow#0.weight", "model.slow#2.weight"}
    for name in names:
        old, new, first = told[1, "kept.slow", name], told[2, "kept.slow", name], told[2, "kept.fast", name]
        assert (new - first) / (old - first) == pytest.approx(0.75, rel=1e-3)
        assert (4, "kept.slow", name) in told  # also where the optimizer was given everything


def test_what_a_copy_follows_is_told_after_the_step_too() -> None:
    torch.manual_seed(0)
    online = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    target = copy.deepcopy(online)
    optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
    left: dict[int, float] = {}
    with recorded() as kept:
        for step in range(3):
            optimizer.zero_grad()
            with torch.no_grad():
                wanted = target(torch.randn(8, 4))
            (online(torch.randn(8, 4)) - wanted).square().sum().backward()
            optimizer.step()
            left[step] = online[2].weight.detach().double().sum().item()
            with torch.no_grad():
                for old, new in zip(online.parameters(), target.parameters(), strict=True):
                    old.lerp_(new, 0.25)
    rows = [row for row in kept.table("scalar") if row["name"] == "kept.left" and row["object"] == "target#2.weight"]
    assert {row["i"]: pytest.approx(row["value"]) for row in rows} == left


class Loading(dict[str, Any]):
    """A table that loads what it stands for when it is read, as libraries keep their classes."""

    def __len__(self) -> int:
        raise AssertionError("loaded")

    __iter__ = items = keys = values = __getitem__ = __len__  # type: ignore[assignment]


class Listing(list[Any]):
    """A list that does the same."""

    def __len__(self) -> int:
        raise AssertionError("loaded")

    __iter__ = __getitem__ = __len__  # type: ignore[assignment]


def test_looking_for_copies_makes_no_table_load_anything() -> None:
    from preflight.monitor.collect.shadows import _by_key, _in_order

    fast, slow = torch.ones(4, 4, requires_grad=True), torch.zeros(4, 4)
    found = [("weight", slow, (fast,))]
    assert list(_by_key(Loading(weight=slow), {"weight": fast})) == found
    assert list(_in_order(Listing([slow]), [("weight", fast)])) == found
