"""What is claimed after loops: exact where every pass is known, nothing where a pass may have ended early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight import analyze
from preflight.source.trace import Context


def test_a_loop_that_counts_down_is_followed_pass_by_pass(follow: Any) -> None:
    followed = follow("left = 3\nparts = []\nwhile left - 1:\n    parts.append(left)\n    left -= 1\n")
    assert followed["parts"] == [3, 2]
    assert followed["left"] == 1


def test_a_loop_that_counts_high_is_followed_once(follow: Any) -> None:
    followed = follow("n = 0\nparts = []\nwhile n < 10**9:\n    parts.append(n)\n    n += 1\n")
    assert followed["n"] is ...
    assert followed["parts"] is ...


@pytest.mark.parametrize("leave", ["break", "continue"])
def test_after_a_loop_that_may_end_early_nothing_is_claimed(follow: Any, leave: str) -> None:
    followed = follow(
        f"""
        import random
        x = 0
        for i in range(3):
            if random.random() > 0.5:
                {leave}
            x += 1
        """
    )
    assert followed["x"] is ...


def test_what_is_set_before_leaving_early_is_not_forgotten(follow: Any) -> None:
    followed = follow(
        """
        import torch
        best = torch.zeros(1)
        for row in open("data"):
            if len(row) > 3:
                best = torch.ones(1)
                break
        again = best
        """
    )
    assert getattr(followed.value("again"), "name", "") != "torch.zeros"


def test_a_training_loop_is_followed_once_and_stays_a_loop(follow: Any) -> None:
    followed = follow(
        """
        import torch
        net = torch.nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        step = 0
        for epoch in range(3):
            for x in loader:
                loss = net(x).sum()
                loss.backward()
                opt.step()
                step += 1
        """
    )
    (backward,) = followed.trace.calls(".backward")
    assert len(backward.context.loops()) == 2
    assert followed["step"] is ...


@pytest.mark.parametrize(
    "batches", ["[torch.ones(2)] * 8", "[torch.ones(n) for n in range(8)]", "[torch.ones(2), torch.zeros(2)]"]
)
def test_an_index_over_known_batches_is_not_taken_for_that_of_the_first(follow: Any, batches: str) -> None:
    followed = follow(
        f"""
        import torch
        net = torch.nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        seen, every = None, 4
        for i, batch in enumerate({batches}):
            net(batch).sum().backward()
            seen = (i + 1) % every == 0
            opt.step()
        """
    )
    assert followed["seen"] is ...


def test_what_is_the_same_in_all_rows_is_known_in_each_pass(follow: Any) -> None:
    followed = follow(
        """
        import torch
        net = torch.nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for kind, rate in [("a", 0.5), ("b", 0.5)]:
            net(batch).sum().backward()
            opt.step()
            held, called = rate, kind
        """
    )
    assert followed["held"] == 0.5
    assert followed["called"] is ...


CONTEXTS = {
    "with": "with torch.autocast('cuda'):\n    net(1)",
    "a context manager of the project": """
from contextlib import contextmanager
@contextmanager
def mixed(on=True):
    with torch.autocast("cuda"):
        yield
with mixed():
    net(1)
""",
    "a decorator": "@torch.autocast('cuda')\ndef run():\n    net(1)\nrun()",
    "a decorator of the project": """
def mixed(f):
    def inner(*a):
        with torch.autocast("cuda"):
            return f(*a)
    return inner
@mixed
def run(): net(1)
run()
""",
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_what_is_entered_around_a_call(follow: Any, name: str) -> None:
    followed = follow("import torch\nnet = torch.nn.Linear(1, 1)\n" + CONTEXTS[name])
    (call,) = followed.trace.calls("()")
    assert any(getattr(w, "name", "") == "torch.autocast" for w in call.context.withs())


def test_modules_of_the_project(follow: Any) -> None:
    followed = follow(
        """
        import pkg.config as c, pkg
        from pkg import *
        from pkg.sub.deep import value as v, up
        from helpers import one
        import helpers
        a = c.LR; b = star; d = v; e = up; f = one; g = helpers.two(); h = pkg.config.LR; i = pkg.sub.deep.value
        """,
        {
            "pkg/__init__.py": "__all__ = ['star']\nstar = 1\nhidden = 2\n",
            "pkg/config.py": "LR = 0.5\n",
            "pkg/sub/__init__.py": "",
            "pkg/sub/deep.py": "from ..config import LR as up\nfrom . import other\nvalue = other.x\n",
            "pkg/sub/other.py": "x = 7\n",
            "helpers.py": "one = 1\ndef two(): return one + 1\n",
        },
    )
    assert {n: followed[n] for n in "abdefghi"} == {
        "a": 0.5,
        "b": 1,
        "d": 7,
        "e": 0.5,
        "f": 1,
        "g": 2,
        "h": 0.5,
        "i": 7,
    }
    assert "hidden" not in followed.reading.machine.module.namespace


def test_sides_of_an_option_are_both_followed_and_the_default_is_preferred(follow: Any) -> None:
    followed = follow(
        """
        import argparse, torch
        p = argparse.ArgumentParser(); p.add_argument("--adam", action="store_true")
        args = p.parse_args()
        if args.adam: opt = torch.optim.Adam([])
        else: opt = torch.optim.SGD([])
        """
    )
    (adam,), (sgd,) = followed.trace.calls("torch.optim.Adam"), followed.trace.calls("torch.optim.SGD")
    assert adam.context.shadow
    assert not sgd.context.shadow
    assert isinstance(adam.context, Context)


def test_a_large_table_in_a_constructor_leaves_steps_for_the_rest(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy, torch\n"
        "def bit(value, place):\n"
        "    return (value & (1 << place)) != 0\n"
        "def colours(count=256):\n"
        "    table = numpy.zeros((count, 3), dtype='uint8')\n"
        "    for i in range(count):\n"
        "        red = green = blue = 0\n"
        "        rest = i\n"
        "        for j in range(8):\n"
        "            red = red | (bit(rest, 0) << 7 - j)\n"
        "            green = green | (bit(rest, 1) << 7 - j)\n"
        "            blue = blue | (bit(rest, 2) << 7 - j)\n"
        "            rest = rest >> 3\n"
        "        table[i] = numpy.array([red, green, blue])\n"
        "    return table\n"
        "class Pictures(torch.utils.data.Dataset):\n"
        "    def __init__(self, part):\n"
        "        self.part, self.colours = part, colours()\n"
        "sets = Pictures('train'), Pictures('held out'), Pictures('test')\n"
        "net = torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for x, y in torch.utils.data.DataLoader(sets[0], batch_size=8, shuffle=True):\n"
        "    optimizer.zero_grad()\n"
        "    torch.nn.functional.cross_entropy(net(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    assert analyze(script).facts["optimizer.lr"].value == 0.1
