"""The length that a loop cuts its batches to, where it changes with the step; and the batch that a hint proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

import preflight
from preflight.check.queries.memory_limits import _smaller

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(1000, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 1000)

    def forward(self, ids):
        ids = ids[:, :4096]
        return self.head(self.layers(self.tokens(ids)))

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(load(), batch_size=8)
for step, ids in enumerate(loader):
    {cut}
    loss = F.cross_entropy(model({given}).flatten(0, 1), {targets}.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("cut", "given", "targets", "stages"),
    [
        ("n = 128 if step < 100 else 512", "ids[:, :n]", "ids[:, 1 : n + 1]", [[0, 128], [100, 512]]),
        ("n = 512 if step >= 100 else 128", "ids[:, :n].cuda()", "ids[:, 1 : n + 1]", [[0, 128], [100, 512]]),
        ("ids = ids[:, : (128 if step <= 99 else 512) + 1]", "ids[:, :-1]", "ids[:, 1:]", [[0, 128], [100, 512]]),
        # Neither a length that stays, nor a part of the samples, nor what the network cuts inside.
        ("n = 512", "ids[:, :n]", "ids[:, 1 : n + 1]", None),
        ("n = 2 if step < 100 else 8", "ids[:n]", "ids[:n]", None),
        ("pass", "ids", "ids", None),
    ],
)
def test_batches_cut_by_the_step(
    cut: str, given: str, targets: str, stages: list[list[int]] | None, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(cut=cut, given=given, targets=targets))
    report = preflight.analyze(script)
    found = report.facts.get("sequence_length.schedule")
    assert (found.value if found is not None else None) == stages
    if stages is not None:
        assert report.facts["sequence_length"].value == 512


@pytest.mark.parametrize(
    ("micro", "fits", "samples", "batch", "kept"),
    [(16, 9, 16, 8, True), (16, 11, 32, 8, True), (4, 2, 4, 2, True), (7, 6, 7, 6, False), (12, 6, 12, 6, True)],
)
def test_a_hint_keeps_the_samples_of_a_step(micro: int, fits: int, samples: int, batch: int, kept: bool) -> None:
    fix = _smaller(micro, fits, samples)
    assert f"from {micro} to {batch} " in fix.title
    assert ("the same number of samples" in (fix.expected or "")) is kept


ROWS = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, length):
        self.rows = {rows}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {item}

model = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in DataLoader(Rows(512), batch_size=8, shuffle=True):
    loss = F.cross_entropy(model(x.cuda()).flatten(0, 1), y.cuda().flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rows", "item", "length"),
    [
        ("torch.randint(0, 1000, (4096, length + 1))", "self.rows[i, :-1], self.rows[i, 1:]", 512),
        ("torch.randint(0, 1000, (4096, length + 1))", "self.rows[i][:-1], self.rows[i][1:]", 512),
        ("torch.randint(0, 1000, (4096, length + 2))", "self.rows[i, 2:], self.rows[i, :-2]", 512),
        ("text().view(4096, 513)", "self.rows[i, :-1], self.rows[i, 1:]", 512),
        ("torch.randint(0, 1000, (4096, length))", "self.rows[i], self.rows[i]", 512),
    ],
)
def test_rows_that_are_longer_by_the_token_to_predict(rows: str, item: str, length: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ROWS.format(rows=rows, item=item))
    assert preflight.analyze(script).facts["sequence_length"].value == length
