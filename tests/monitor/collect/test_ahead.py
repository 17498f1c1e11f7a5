"""Whether a text may still make an optimizer after the place that it has come to."""

from __future__ import annotations

import ast

import pytest

from preflight.monitor.collect.ahead import Place, optimizers_come
from preflight.monitor.collect.texts import Texts

KINDS = frozenset({"SGD", "Adam"})
HERE = "  # here"


def come(text: str, *calls: str) -> bool | None:
    """What is said of a text that has come to the line marked ``# here``, in functions that were called, innermost first."""
    lines = text.split("\n")
    texts = Texts({"train.py": ast.parse(text)})
    marked = [number for number, line in enumerate(lines, 1) if line.endswith(HERE)]
    assert len(marked) == len(calls) + 1
    names = [*calls, "<module>"]
    first = {"<module>": 1}
    for name in calls:
        first[name] = next(number for number, line in enumerate(lines, 1) if f"def {name}(" in line)
    return optimizers_come(
        texts, [Place("train.py", name, first[name], line) for name, line in zip(names, marked, strict=True)], KINDS
    )


STEP = f"    opt.step(){HERE}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"opt = Adam(body.parameters())\nfor _ in range(9):\n{STEP}opt = SGD(head.parameters())\n",
        f"for part in parts:\n    opt = Adam(part.parameters())\n{STEP}",
        f"for epoch in range(9):\n    if epoch == 3:\n        opt.add_param_group(dict(params=head))\n{STEP}",
        f"for epoch in range(9):\n    if epoch == 3:\n        opt = KINDS[name](model.parameters())\n{STEP}",
        f"for held in (body, head):\n    opt = getattr(torch.optim, kind)(held, lr=0.1)\n{STEP}",
        f"def second():\n    return Adam(net.parameters())\nfor _ in range(9):\n{STEP}second()\n",
        f"for _ in range(9):\n{STEP}opt = create_optimizer_v2(model)\n",
        f"class Second:\n    def __init__(self):\n        self.opt = SGD(p)\nfor _ in range(9):\n{STEP}Second()\n",
        f"try:\n{STEP}finally:\n    opt = SGD(head)\n",
        f"for _ in range(9):\n{STEP}Trainer(model=model).train()\n",
    ],
)
def test_what_stands_behind_or_around_may_come(text: str) -> None:
    assert come(text) is True


@pytest.mark.parametrize(
    "text",
    [
        f"opt = Adam(body.parameters())\nfor _ in range(9):\n{STEP}evaluate(model)\n",
        f"if fast:\n    opt = Adam(p)\n    for _ in range(9):\n    {STEP}else:\n    opt = SGD(p)\n",
        f"def unused():\n    return Adam(net.parameters())\nfor _ in range(9):\n{STEP}",
        # The next fold is trained with a network of its own.
        f"for fold in range(3):\n    model = Net()\n    opt = Adam(model.body.parameters())\n{STEP}",
    ],
)
def test_what_was_passed_or_is_for_another_network_does_not(text: str) -> None:
    assert come(text) is False


def test_a_function_that_is_called_again_makes_its_optimizer_again() -> None:
    train = f"def train(part):\n    opt = Adam(part.parameters())\n{STEP}"
    assert come(f"{train}train(body){HERE}\ntrain(head)\n", "train") is True
    assert come(f"{train}[train(part) for part in parts]{HERE}\n", "train") is True
    assert come(f"{train}train(body){HERE}\n", "train") is False


def test_a_network_that_is_set_to_train_is_no_trainer() -> None:
    text = (
        "class Trainer:\n    def train(self):\n        self.opt = Adam(self.body.parameters())\n"
        f"        for _ in range(9):\n            self.body.train()\n            self.opt.step(){HERE}\n"
    )
    assert come(f"{text}trainer = Trainer()\ntrainer.train(){HERE}\n", "train") is False
    assert come(f"{text}trainer = Trainer()\ntrainer.train(){HERE}\ntrainer.train()\n", "train") is True


def test_where_the_text_does_not_have_the_function_nothing_is_known() -> None:
    assert optimizers_come(Texts({}), [Place("train.py", "<module>", 1, 3)], KINDS) is None
