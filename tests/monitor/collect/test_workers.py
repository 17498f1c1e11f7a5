"""What the workers of a loader tell of their generators, forked or spawned, and in which order a loader gives samples."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect.settings import Settings
from preflight.monitor.live.launch import environment
from preflight.monitor.trace.folder import TraceFolder

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.orders import Numbers, facts  # noqa: E402

pytestmark = pytest.mark.torch

PROGRAM = """
import random, sys
import torch

torch.manual_seed(4)  # a worker that is started anew comes by here, too

class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.tensor([random.random() + index])

def main(method):
    torch.manual_seed(3)
    net = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(Drawn(), batch_size=3, num_workers=2, multiprocessing_context=method)
    for x in loader:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_leave_their_seeds_in_files_of_their_own(tmp_path: Path, method: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    folder = tmp_path / "t"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), method],
        env=environment(Settings(str(folder))), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = _rows(folder)
    seeds = {row["worker"]: row for row in rows["seed"]}
    assert set(seeds) == {0, 1}
    assert sorted(path.name.partition("-")[0] for path in folder.glob("*.trace")) == ["rank", "worker", "worker"]
    assert seeds[0]["torch"] != seeds[1]["torch"]
    assert seeds[0]["python"] != seeds[1]["python"]
    assert [row["bits"] is not None for row in rows["batch"] if row["loader"] == "loader0"] == [True] * 4
    assert not rows["trouble"]
    told = {row["args"]["worker"]: row["args"] for row in rows["call"] if row["name"] == "worker"}
    if method == "fork":  # only a fork shares the page through which the trainer hears of it
        assert {worker: args["used"] for worker, args in told.items()} == {0: ["python"], 1: ["python"]}


HELD = """
import random
import torch

class Shift:
    def __init__(self, seed):
        self.chance = random.Random(seed)
    def __call__(self, x):
        return x + self.chance.random()

class Chain:
    def __init__(self, *parts):
        self.parts = list(parts)
    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

class Drawn(torch.utils.data.Dataset):
    def __init__(self):
        self.change = Chain(torch.neg, Shift(SEED))
        self.samples = [torch.ones(1)] * 100
        self.around = self  # a circle
    def __len__(self):
        return 12
    def __getitem__(self, index):
        if LATE and "seeded" not in vars(self):
            self.seeded = self.change.parts[1].chance.seed(torch.utils.data.get_worker_info().seed)
        return self.change(self.samples[index])

def begin(worker):
    torch.utils.data.get_worker_info().dataset.change.parts[1].chance.seed(worker)

net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(Drawn(), batch_size=3, num_workers=2, worker_init_fn=BEGIN):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="a fork shares the page that tells it"
)
@pytest.mark.parametrize(("begin", "late", "states"), [("None", False, 1), ("begin", False, 2), ("None", True, 2)])
def test_generators_are_found_in_the_transforms_that_a_dataset_holds(
    tmp_path: Path, begin: str, late: bool, states: int
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HELD.replace("SEED", "7").replace("BEGIN", begin).replace("LATE", str(late)))
    folder = tmp_path / "t"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment(Settings(str(folder))), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = [row["args"] for row in _rows(folder)["call"] if row["name"] == "worker"]
    assert [args["used"] for args in told] == [["own"], ["own"]]
    assert len({args["own"] for args in told}) == states


def _rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in ("seed", "batch", "call", "trouble")}
    for batch in TraceFolder(folder).batches(by="iteration"):
        for kind, columns in batch.tables.items():
            if kind in found:
                found[kind] += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return found


class Some(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([float(index)])


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Any:
        return iter([torch.zeros(1)] * 4)


def loader(**given: Any) -> Any:
    return torch.utils.data.DataLoader(Some(), batch_size=2, **given)


@pytest.mark.parametrize(
    ("made", "order"),
    [
        (lambda: loader(), "sequential"),
        (lambda: loader(shuffle=True), "random"),
        (lambda: loader(sampler=torch.utils.data.RandomSampler(Some(), replacement=True)), "drawn"),
        (lambda: loader(sampler=torch.utils.data.WeightedRandomSampler([1.0] * 8, 8)), "drawn"),
        (lambda: loader(sampler=torch.utils.data.SubsetRandomSampler([1, 2])), "random"),
        (lambda: loader(sampler=[3, 1, 2]), "own"),
        (lambda: torch.utils.data.DataLoader(Some(), batch_sampler=[[0], [1, 2]]), "own"),
    ],
)
def test_the_order_of_a_loader_is_known_from_its_samplers(made: Any, order: str) -> None:
    assert facts(made(), Numbers())["order"] == order


@pytest.mark.parametrize(("shuffle", "order"), [(True, "distributed random"), (False, "distributed")])
def test_a_distributed_sampler_tells_its_rank(shuffle: bool, order: str) -> None:
    sampler = torch.utils.data.DistributedSampler(Some(), num_replicas=4, rank=1, shuffle=shuffle)
    told = facts(loader(sampler=sampler), Numbers())
    assert (told["order"], told["replicas"], told["samples"]) == (order, [1, 4], 2)


def test_a_stream_has_no_length_and_no_order() -> None:
    told = facts(torch.utils.data.DataLoader(Stream(), batch_size=2), Numbers())
    assert (told["iterable"], told["length"], told["order"]) == (True, None, "own")


def test_datasets_are_numbered_and_not_kept() -> None:
    numbers = Numbers()
    one, two = Some(), Some()
    assert [numbers.of(one), numbers.of(two), numbers.of(one)] == [0, 1, 0]
    assert numbers.of([1, 2]) is None
    del one
    assert numbers.of(Some()) == 2  # no number is given twice


def test_recording_a_loader_moves_no_generator() -> None:
    def drawn() -> list[tuple[float, float]]:
        random.seed(5)
        torch.manual_seed(5)
        found = []
        for _ in range(3):
            list(loader(shuffle=True))
            found.append((random.random(), torch.rand(()).item()))
        return found

    plain = drawn()
    with recorded() as kept:
        assert drawn() == plain
    assert len(kept.calls("loop")) == 3
