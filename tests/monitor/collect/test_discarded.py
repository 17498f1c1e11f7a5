"""Which losses go in each step where they went in another one, as far as the program's text tells."""

from __future__ import annotations

import ast

import pytest

from preflight.monitor.collect.discarded import goes_nowhere_else
from preflight.monitor.collect.texts import Texts

START = """
def main(model, loader, weights):
    for step, (x, y) in enumerate(loader):
        main_loss = mse_loss(model(x), y)
        side = mse_loss(model.side(x), y)  # computed
"""
END = """
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(loss.item(), float(side))
"""


def told(text: str) -> bool:
    """Whether it is known where what is computed at a line goes."""
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# computed" in one)
    text += '\nif __name__ == "__main__":\n    main(net, data, 3)\n'
    return goes_nowhere_else(Texts({"train.py": ast.parse(text)}), "train.py", line)


KNOWN = {
    "it is shown": START + "        loss = main_loss" + END,
    "another takes its place": START + "        loss = side\n        loss = main_loss" + END,
    "it is detached": START + "        loss = main_loss + 0.1 * side.detach()" + END,
    "it is kept in a list": START + "        loss = main_loss\n        seen = []\n        seen.append(side)" + END,
    "all terms of a list": START
    + "        loss = 0\n        for one in [main_loss, side]:\n            loss = one"
    + END,
    "the training stops early": START
    + "        loss = main_loss"
    + END
    + "        if loss < 0.1:\n            break\n",
    "it is weighed": START + "        loss = main_loss + weights[1] * side" + END,
    "a sum of terms that a loop overwrites": """
def main(model, functions):
    for step in range(100):
        total = torch.zeros(())
        for name, function in functions.items():
            term = function(model(x)[name], y[name])  # computed
            total = term
        total.backward()
        optimizer.step()
""",
}


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN.keys())
def test_what_happens_in_each_step_alike_is_known(text: str) -> None:
    assert told(text)


UNKNOWN = {
    "in later steps": START + "        loss = main_loss\n        if step > 900:\n            loss = loss + side" + END,
    "in later steps, as an expression": START + "        loss = main_loss + side if step > 900 else main_loss" + END,
    "in later steps, by and": START + "        loss = main_loss + (step > 900 and side)" + END,
    "another takes its place at first": START
    + "        loss = side\n        if step < 900:\n            loss = main_loss"
    + END,
    "the rest of the round is left out at first": START
    + "        if step < 900:\n            main_loss.backward()\n            continue\n        loss = main_loss + side"
    + END,
    "a function joins them": START + "        loss = join(main_loss, side, step)" + END,
    "an object keeps it": START + "        model.side_loss = side\n        loss = main_loss" + END,
    "it is returned": START + "        loss = main_loss" + END + "        return side\n",
    "it has a pass of its own later": START + "        loss = main_loss" + END + "    side.backward()\n",
    "another phase passes back": START
    + "        loss = main_loss"
    + END
    + "def probe(model, x, y):\n    mse_loss(model.side(x), y).backward()\nprobe()\n",
    "a library passes back": START + "        loss = main_loss\n        fit(loss)\n",
    "it is known by its name": START + "        loss = main_loss + locals()['side']" + END,
    "a closure has it": START + "        loss = main_loss\n        after(lambda: side)" + END,
    "some of a list": START + "        loss = sum([one for one in (main_loss, side) if one is wanted])" + END,
    "a loop over terms ends early": START
    + "        loss = 0\n        for at, one in enumerate([main_loss, side]):\n            if at > step // 900:\n                break"
    + "\n            loss = loss + one"
    + END,
    "with as many weights as there are so far": START
    + "        loss = sum([w * one for w, one in zip(weights, [main_loss, side])])"
    + END,
    "as often as there are rounds": START
    + "        loss = main_loss\n        for _ in range(step // 900):\n            loss = loss + side"
    + END,
    "as many copies as are wanted": START
    + "        loss = sum([main_loss, *[side for _ in range(step // 900)]])"
    + END,
    "an error is caught": START
    + "        try:\n            loss = main_loss + side\n        except ValueError:\n            loss = main_loss"
    + END,
    "gradients are asked for": START + "        loss = main_loss" + END + "    torch.autograd.grad(x.sum(), x)\n",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_may_go_elsewhere_in_another_step_is_left(text: str) -> None:
    assert not told(text)
