"""What the recorder tells of checkpoints, of splits that chance drew, and of data sets whose workers stay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.holdings import holdings  # noqa: E402
from preflight.monitor.collect.staying import Staying, _names_read  # noqa: E402

pytestmark = pytest.mark.torch


def adam(stepped: bool) -> Any:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight], lr=0.5)
    if stepped:
        weight.grad = torch.ones(2)
        optimizer.step()
    return optimizer


def test_what_is_saved_and_what_is_loaded_tell_the_same(tmp_path: Path) -> None:
    state = {"optimizer": adam(True).state_dict(), "epoch": 7, "done": True, "loss": 0.5, "name": "a"}
    with recorded() as kept:
        torch.save(state, tmp_path / "all.pt")
        torch.load(tmp_path / "all.pt")
    (saved,), (loaded,) = kept.calls("save"), kept.calls("load")
    for told in (saved["args"], loaded["result"]):
        assert told["counts"] == {"epoch": 7}
        assert told["optimizers"]["optimizer"].items() >= {"states": 1, "held": 1, "rates": [0.5]}.items()


def test_a_file_is_told_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorded() as kept:
        torch.save({"epoch": 1}, "last.pt")
        torch.load(tmp_path / "last.pt")
    (saved,), (loaded,) = kept.calls("save"), kept.calls("load")
    assert saved["args"]["file"] == loaded["args"]["file"] == str(tmp_path / "last.pt")


def test_stages_are_told_beside_the_counters() -> None:
    told = holdings({"stage": "tuning", "task_id": 3, "name": "a", "epoch": 2, "phase": "x" * 65})
    assert told == {"counts": {"task_id": 3, "epoch": 2}, "stages": {"stage": "tuning", "task_id": 3}}


def test_a_file_may_be_an_optimizer_alone() -> None:
    assert holdings(adam(False).state_dict())["optimizers"][""].items() >= {"states": 0, "held": 1}.items()


@pytest.mark.parametrize(
    "value",
    [
        {},
        [1, 2],
        3,
        {"a": torch.ones(1)},
        {"state": {}, "param_groups": "a"},
        {"state": None, "param_groups": [{}]},
        None,
    ],
)
def test_of_other_files_nothing_is_told(value: Any) -> None:
    assert holdings(value) == {}


def parts(change: Any = None, **given: Any) -> list[bool]:
    """Whether the parts of a split are told to be drawn by chance, after something was done to the first one."""
    with recorded() as kept:
        whole = torch.utils.data.TensorDataset(torch.arange(40.0))
        if change == "seed":
            torch.manual_seed(3)
        split = torch.utils.data.random_split(whole, [30, 10], **given)
        if change == "restored":
            split[0].indices = list(range(30))
        for part in split:
            next(iter(torch.utils.data.DataLoader(torch.utils.data.Subset(part, range(5)))))
    return [row["args"].get("by_chance", False) for row in kept.calls("loader.new")]


def test_a_split_without_a_seed_is_told() -> None:
    torch.seed()
    assert parts() == [True, True]


def test_a_split_with_a_seed_is_not() -> None:
    torch.seed()
    assert parts("seed") == [False, False]
    torch.seed()
    assert parts(generator=torch.Generator().manual_seed(1)) == [False, False]


def test_a_seed_that_was_set_before_the_recorder_began_is_one() -> None:
    torch.manual_seed(7)
    assert parts() == [False, False]


def test_a_split_that_is_put_back_is_not() -> None:
    torch.seed()
    assert parts("restored") == [False, True]


class Harder:
    """A transform with a strength of its own."""

    def __init__(self) -> None:
        self.strength = 0
        self.calls = 0

    def __call__(self, value: int) -> int:
        self.calls += 1
        return value + self.strength


class Counted(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """A data set whose code reads ``offset``, by a property and a method, and never ``note``."""

    def __init__(self) -> None:
        self.epoch, self.note, self.hint = 0, 0, 0
        self.transform = [Harder()]

    def __len__(self) -> int:
        return 4

    @property
    def offset(self) -> int:
        return self.epoch

    def moved(self, index: int) -> int:
        return index + self.offset

    def __getitem__(self, index: int) -> int:
        return sum(self.transform[0](self.moved(one)) for one in [index])


def test_what_the_code_of_samples_reads_is_known_by_name() -> None:
    assert _names_read(Counted) == {"transform", "moved", "offset", "epoch"}
    assert _names_read(Harder) == {"strength"}


class Loader:
    """Stands for a loader: what is asked of one."""

    persistent_workers, num_workers, collate_fn = True, 1, None
    _iterator: object = None

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset


def test_a_change_that_workers_read_is_told_until_they_are_started_anew() -> None:
    held, staying = Counted(), Staying()
    loader = Loader(torch.utils.data.Subset(held, range(2)))
    assert staying.begins(loader) == {}
    loader._iterator = object()
    held.note += 1
    held.transform[0].calls += 1
    assert staying.begins(loader) == {"unheard": []}
    held.epoch, held.transform[0].strength = 1, 2
    assert sorted(staying.begins(loader)["unheard"]) == ["Counted.epoch", "Harder.strength"]
    loader._iterator = None
    assert staying.begins(loader) == {}
    loader._iterator = object()
    assert staying.begins(loader) == {"unheard": []}


def test_of_workers_that_are_started_for_each_epoch_nothing_is_told() -> None:
    held, staying = Counted(), Staying()
    loader = Loader(held)
    loader.persistent_workers = False
    staying.begins(loader)
    held.epoch = 1
    assert staying.begins(loader) == {}
