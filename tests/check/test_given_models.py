"""A model that a function is given is told to stay in eval mode only where nothing may put it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.session import check_text

_TRAIN = """
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
_HEAD = "import copy, torch\ndef fit(net, loader, held_out, optimizer, epochs, callbacks):\n    for epoch in range(epochs):\n"
_EVALUATE = "        net.eval()\n        print(net(held_out).argmax(1))\n"


def _told(folder: Path, text: str) -> list[str]:
    (folder / "train.py").write_text(text)
    report = check_text(folder / "train.py", Options())
    return [finding.code for finding in report.findings if finding.code == "MOD001"]


def test_what_is_never_undone_is_told(tmp_path: Path) -> None:
    assert _told(tmp_path, _HEAD + _TRAIN + _EVALUATE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("        for one in callbacks:\n            one.on_epoch_begin(epoch)\n", _EVALUATE),
        ("        net.apply(lambda part: part.train())\n", _EVALUATE),
        ("        for part in net.modules():\n            part.training = True\n", _EVALUATE),
        ("        torch.nn.Module.train(net, True)\n", _EVALUATE),
        ("", "        other = copy.deepcopy(net)\n        other.eval()\n        print(other(held_out))\n"),
        ("", "        if epoch == epochs - 1:\n            net.eval()\n            print(net(held_out))\n"),
        ("", _EVALUATE + "        return net\n"),
    ],
)
def test_what_may_be_undone_or_trains_no_more_is_not(before: str, after: str, tmp_path: Path) -> None:
    assert not _told(tmp_path, _HEAD + before + _TRAIN + after)


def test_a_method_that_another_class_fills_in_may_undo_it(tmp_path: Path) -> None:
    text = """
import torch
class Fit:
    def __init__(self, net, loader, optimizer):
        self.net, self.loader, self.optimizer = net, loader, optimizer
    def begin(self):
        BODY
    def fit(self, epochs, held_out):
        for epoch in range(epochs):
            self.begin()
            for x, y in self.loader:
                self.optimizer.zero_grad()
                torch.nn.functional.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()
            self.net.eval()
            print(self.net(held_out).argmax(1))
"""
    assert _told(tmp_path, text.replace("BODY", "print(self)"))
    assert not _told(tmp_path, text.replace("BODY", "raise NotImplementedError"))
