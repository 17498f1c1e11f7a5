"""A checkpoint can be read whatever the objects in sight hold; what cannot be read back is left out, and named."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

import preflight  # noqa: E402
from preflight.errors import UsageError  # noqa: E402
from preflight.monitor.collect import snapshot  # noqa: E402

pytestmark = pytest.mark.torch


class Mode(Enum):
    LOWEST = 1


class Held:
    """Something of a person's with a state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


class Scaled(torch.nn.Linear):
    """A layer with a state beside its tensors."""

    def __init__(self, beside: Any) -> None:
        super().__init__(2, 2)
        self.beside = beside

    def get_extra_state(self) -> Any:
        return self.beside

    def set_extra_state(self, state: Any) -> None:
        self.beside = state


@pytest.fixture
def troubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(snapshot, "OFFSET", dict.fromkeys(snapshot.OFFSET, 0))  # another test may have resumed
    return []


def _save(folder: Path, troubles: list[tuple[Any, ...]], **objects: Any) -> None:
    recorder: Any = SimpleNamespace(
        torch=torch, iteration=4, step=5, settings=SimpleNamespace(folder=str(folder)),
        number=lambda: 7, event=lambda *_: None, put=lambda _, row: troubles.append(row),
    )  # fmt: skip
    sight: Any = SimpleNamespace(
        objects=lambda: objects, epoch_states=lambda: (None, {}), loader=-1, epoch=0, handed_on=0
    )
    snapshot.save(recorder, sight, 0, snapshot.random_states())


def _trained(rate: Any) -> tuple[Any, Any]:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_numbers_of_numpy_are_read_back_as_large_as_they_were(tmp_path: Path, troubles: list[tuple[Any, ...]]) -> None:
    rate = numpy.logspace(-3, -1, 3)[1]
    model, optimizer = _trained(rate)
    stop = Held({"best": numpy.float32(0.1), "waited": [numpy.int64(3), (numpy.bool_(True), {"a", 1})]})
    _save(tmp_path, troubles, model=model, optimizer=optimizer, stop=stop)
    other, its = _trained(0.5)
    read = Held(None)
    preflight.resume(tmp_path, model=other, optimizer=its, stop=read)
    assert its.param_groups[0]["lr"] == float(rate)
    assert torch.equal(its.state[other.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])
    assert read.state == {"best": float(numpy.float32(0.1)), "waited": [3, (True, {"a", 1})]}
    assert troubles == []


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ({"seen": numpy.zeros(3)}, "numpy.ndarray"),
        ({"how": {"mode": Mode.LOWEST}}, "Mode"),
        ([Path("best.pt")], "pathlib."),
        ({"net": torch.nn.Linear(1, 1)}, "Linear"),
    ],
)
def test_one_strange_object_costs_no_other(
    tmp_path: Path, troubles: list[tuple[Any, ...]], state: Any, what: str
) -> None:
    model, optimizer = _trained(0.1)
    _save(tmp_path, troubles, meter=Held(state), model=model, optimizer=optimizer)
    other, its = _trained(0.5)
    assert preflight.resume(tmp_path, model=other, optimizer=its).step == 5
    assert torch.equal(other.weight, model.weight)
    [(_, iteration, where, error)] = troubles
    assert (iteration, where) == (4, "checkpoint")
    assert error.startswith("meter is not in it: ")
    assert what in error
    with pytest.raises(UsageError, match="'meter' was not saved: TypeError: it holds a"):
        preflight.resume(tmp_path, meter=Held(None))


def test_the_extra_state_of_a_part_costs_only_itself(tmp_path: Path, troubles: list[tuple[Any, ...]]) -> None:
    model = torch.nn.Sequential(Scaled({"scale": torch.ones(2)}), Scaled({"seen": numpy.zeros(1)}))
    _save(tmp_path, troubles, model=model)
    other = torch.nn.Sequential(Scaled(None), Scaled("as it was"))
    preflight.resume(tmp_path, model=other)
    assert torch.equal(other[1].weight, model[1].weight)
    assert torch.equal(other[0].beside["scale"], torch.ones(2))
    assert other[1].beside == "as it was"
    assert [row[3][:45] for row in troubles] == ["model.1 is not in it: its extra state: it hol"]


def test_a_batch_that_was_only_fetched_ahead_is_left_to_the_resumed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerated = pytest.importorskip("accelerate.data_loader")
    plain = torch.utils.data.DataLoader
    sight, own = snapshot.Sight(None, None), plain.__iter__  # type: ignore[arg-type]

    def begins(self: Any) -> Any:
        sight.began(0, 0, self)
        return own(self)

    monkeypatch.setattr(plain, "__iter__", begins)
    for loader, had in ((plain(range(6)), 2), (accelerated.DataLoaderShard(range(6)), 1), (plain(range(6)), 2)):
        assert len(list(loader)) == 6
        sight.fetches(0, 0, 2)  # the third batch is about to be fetched
        assert sight.handed_on == had
        sight.fetches(0, 1, 0)
        assert sight.handed_on == 0
