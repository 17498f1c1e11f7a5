"""What the edits of single rules must not do."""

from __future__ import annotations

from pathlib import Path

from preflight.check.asked import Options
from preflight.check.files.fix import Fixing
from preflight.check.session import check_text
from preflight.vocabulary.finding import Finding

_TRAINED = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(a, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def _found(folder: Path, code: str, text: str) -> list[Finding]:
    (folder / "train.py").write_text(text)
    return [f for f in check_text(folder / "train.py", Options()).findings if f.code == code]


def test_a_logarithm_to_another_base_is_not_exchanged_for_the_natural_one(tmp_path: Path) -> None:
    text = """
import torch
net = torch.nn.Linear(8, 4)
for x, y in loader:
    torch.nn.functional.nll_loss(torch.LOG(torch.softmax(net(x), dim=1)), y).backward()
"""
    (natural,) = _found(tmp_path, "NUM001", text.replace("LOG", "log"))
    (binary,) = _found(tmp_path, "NUM001", text.replace("LOG", "log2"))
    assert natural.fix is not None
    assert binary.fix is not None
    assert natural.fix.edits
    assert not binary.fix.edits


def test_no_grad_goes_under_the_decorators_that_are_there(tmp_path: Path) -> None:
    text = (
        _TRAINED
        + """
class Score:
    @classmethod
    def test(cls, net, loader):
        for x, y in loader:
            print(net(x).argmax(1))
Score.test(model, DataLoader(b, batch_size=8))
"""
    )
    found = _found(tmp_path, "MEM011", text)
    assert len(found) == 1
    Fixing(found, unsafe=True, root=str(tmp_path)).write()
    assert "    @classmethod\n    @torch.no_grad()\n    def test(cls" in (tmp_path / "train.py").read_text()
