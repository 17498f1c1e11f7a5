"""What the recorder tells of schedules: what a plateau is judged by, and how far those were that lie in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.schedules import measured  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("scheduler.step(val_loss)", "val_loss"),
        ("    self.plateau.step(metrics=self.accuracy)", "accuracy"),
        ("sched.step(history['loss'])", "loss"),
        ("sched.step(total_loss.item() / len(loader))", "total_loss"),
        ("sched.step(np.mean(losses))", "losses"),
        ("sched.step(float(acc))", "acc"),
        ("sched.step(-loss)", ""),
        ("sched.step(1 - acc)", ""),
        ("sched.step(evaluate(model))", ""),
        ("sched.step()", ""),
        ("a.step(loss); b.step(acc)", ""),
        ("sched.step(", ""),
    ],
)
def test_a_measure_is_told_by_its_name(line: str, name: str) -> None:
    assert measured(line) == name


def test_a_plateau_tells_its_mode_and_what_its_measure_is_called() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max")
    with recorded() as kept:
        for accuracy in (0.1, 0.2):
            optimizer.step()
            plateau.step(accuracy)
    told = [row["args"] for row in kept.calls("scheduler.step")]
    assert [(one["mode"], one["called"], one["measure"]) for one in told] == [
        ("max", "accuracy", 0.1),
        ("max", "accuracy", 0.2),
    ]


def test_a_file_that_is_read_tells_how_far_its_schedules_were(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    torch.save({"model": model.state_dict(), "schedule": schedule.state_dict(), "epoch": 7}, tmp_path / "all.pt")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    with recorded() as kept:
        torch.load(tmp_path / "all.pt")
        torch.load(tmp_path / "model.pt")
    assert [row["result"] for row in kept.calls("load")] == [{"schedules": [3], "counts": {"epoch": 7}}, None]


def test_a_schedule_that_cannot_be_told_hides_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(line: str) -> str:
        raise RuntimeError(line)

    monkeypatch.setattr("preflight.monitor.collect.schedules.measured", fails)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    steady = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    with recorded() as kept:
        optimizer.step()
        plateau.step(0.5)
        steady.step()
    assert [row["object"] for row in kept.calls("scheduler.step")] == ["StepLR"]


def test_a_schedule_that_is_made_is_told_of_once_its_optimizer_is_used() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    with recorded() as kept:
        optimizer = torch.optim.SGD([weight], lr=0.1)
        idle = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
        schedules = [
            torch.optim.lr_scheduler.StepLR(optimizer, 5),
            torch.optim.lr_scheduler.LambdaLR(optimizer=optimizer, lr_lambda=lambda step: 1.0),
        ]
        for _ in range(2):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
        del idle
    assert len(schedules) == 2
    made = [(row["object"], row["args"], Path(row["place"]).name.split(":")[0]) for row in kept.calls("scheduler.new")]
    known = {"optimizer": "optimizer0:SGD"}
    assert made == [("StepLR", known, "test_schedules.py"), ("LambdaLR", known, "test_schedules.py")]


def test_a_schedule_that_is_made_is_told_once_whatever_its_kind() -> None:
    with recorded() as kept:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kinds = torch.optim.lr_scheduler
        made = [kinds.ReduceLROnPlateau(optimizer), kinds.StepLR(optimizer, 5)]
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [row["object"] for row in kept.calls("scheduler.new")] == [type(one).__name__ for one in made]


def test_the_rates_that_a_schedule_left_as_it_was_made_are_told_with_its_first_advance() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    with recorded() as kept:
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: (count + 1) / 4)
        for group in optimizer.param_groups:
            group["lr"] = 0.3
        for _ in range(2):
            optimizer.step()
            schedule.step()
    told = [row["args"] for row in kept.calls("scheduler.step")]
    assert [one.get("made") for one in told] == [[0.025], None]
    assert told[0]["before"] == [0.3]
