"""Sees a scheduler step with every batch although it counts epochs, or with every epoch although it counts batches."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.schedules import between_batches, epochs, steps_of, training_loader, with_each_batch
from preflight.check.rules.correctness.schedule_counts_other_units import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

_NOTHING = 1e-3
"""A rate that has fallen to this share of its first value trains nothing more."""

_DATA = """
import torch
from torch.optim import lr_scheduler
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(400, 8), torch.randn(400, 2))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
def learn(batch):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(batch[0].cuda()), batch[1].cuda()).backward()
    optimizer.step()
"""

BAD = (
    f"""{_DATA}
settings = dict(epochs=20)
schedule = getattr(lr_scheduler, "CosineAnnealingLR")(optimizer, settings["epochs"])
def one_epoch():
    for batch in loader:
        learn(batch)
        schedule.step()
for epoch in range(settings["epochs"]):
    one_epoch()
""",
    f"""{_DATA}
class Trainer:
    def __init__(self, **given):
        vars(self).update(given)
        self.schedule = lr_scheduler.StepLR(optimizer, self.every, gamma=0.1)
    def fit(self):
        for epoch in range(self.epochs):
            for batch in loader:
                learn(batch)
                self.schedule.step()
Trainer(epochs=30, every=10).fit()
""",
    f"""{_DATA}
epochs = int("12")
length = epochs * sum(1 for _ in range(0, len(data), 8))
schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=length)
for epoch in range(epochs):
    for batch in loader:
        learn(batch)
    schedule.step()
""",
)

GOOD = (
    f"""{_DATA}
schedule = lr_scheduler.CosineAnnealingLR(optimizer, 20)
for epoch in range(20):
    for batch in loader:
        learn(batch)
    schedule.step()
""",
    f"""{_DATA}
schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20 * len(loader))
for epoch in range(20):
    for batch in loader:
        learn(batch)
        schedule.step()
""",
    f"""{_DATA}
warm = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
for epoch in range(20):
    for batch in loader:
        learn(batch)
        warm.step()
""",
    f"""{_DATA}
schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
for epoch in range(10):
    for at, batch in enumerate(loader):
        learn(batch)
        schedule.step(epoch + at / len(loader))
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Compare what each scheduler counts with when it steps."""
    loader = training_loader(run)
    if not run.complete or loader is None or loader.batches is None:
        return
    for number in range(len(run.optimizers)):
        made = [item for item in run.seen("scheduler made") if item.data["optimizer"] == number]
        _, moves = steps_of(run, number)
        if len(made) != 1 or not moves or any(item.data["given"] for item in moves):
            continue  # of several schedulers it is not known which of them stepped
        told = _too_often(run, made[0], loader.batches) if with_each_batch(run, number) else None
        if told is None and between_batches(run, number):
            told = _too_seldom(run, made[0], loader.batches)
        if told is None:
            continue
        said, often = told
        yield run.finding(
            RULE,
            made[0].line,
            said,
            evidence=[
                seen("numbers of the schedule", _numbers(made[0])),
                seen("batches of an epoch", loader.batches),
                seen("lengths of the loops around", ", ".join(map(str, epochs(run)))),
            ],
            fix=Fix(
                title="step the scheduler where its length is counted",
                instruction="call step() once per epoch, or multiply the length by len(loader)"
                if often
                else "call step() after every optimizer step, or give the length in epochs",
                expected="the schedule lasts as long as the training",
            ),
            related=[(moves[0].line, f"the scheduler steps here, once per {'batch' if often else 'epoch'}")],
        )


def _too_often(run: Run, made: Observation, batches: int) -> tuple[str, bool] | None:
    kind, data = made.data["scheduler"], made.data
    if kind == "CosineAnnealingLR" and data.get("T_max") in epochs(run):
        size = data["T_max"]
        said = f"T_max of {kind} is {size}, the number of epochs, and it steps with every batch: it ends after {size} batches"
        return f"{said}, of which an epoch has {batches}", True
    gamma = data.get("gamma")
    if not epochs(run) or gamma is None or not 0 < gamma < 1:
        return None
    marks = [mark for mark in data.get("milestones", ()) if mark <= batches]
    falls = {
        "StepLR": batches // max(1, int(data.get("step_size", batches + 1))), "ExponentialLR": batches,
        "MultiStepLR": len(marks),
    }.get(kind, 0)  # fmt: skip
    share = gamma**falls
    if share > _NOTHING * 1.001:
        return None
    said = f"{kind} steps with every batch: within the first epoch of {batches} batches the rate falls to {share:.1g} of what"
    return f"{said} it was, and nothing more is learned", True


def _too_seldom(run: Run, made: Observation, batches: int) -> tuple[str, bool] | None:
    length = made.data.get("T_max") or made.data.get("total_steps")
    longest = max(epochs(run), default=0)
    if not length or not longest or length < batches or length <= 3 * longest:
        return None
    said = f"{made.data['scheduler']} is {length:g} steps long and steps once per epoch, of which there are {longest}"
    return f"{said}: the training ends after {100 * longest / length:.2g} % of the schedule", False


def _numbers(made: Observation) -> str:
    return ", ".join(f"{k}={v}" for k, v in made.data.items() if k not in ("scheduler", "optimizer"))
