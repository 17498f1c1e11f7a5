"""Which objects no line of a program can step: where they are kept, handed on, returned, and by whom they may be used."""

from __future__ import annotations

import ast

import pytest

from preflight.monitor.collect.carrying import unused
from preflight.monitor.collect.texts import Texts

LOOP = """
    for step in range(100):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MAIN = f"""
def main(model, x, steps):
    optimizer = Adam(model.parameters())
    schedule = StepLR(optimizer, 10)  # made
{LOOP}
"""


def told(text: str, kind: str = "StepLR", **others: str) -> bool:
    """Whether nothing steps what is made at the line that says so."""
    text += '\nif __name__ == "__main__":\n    main(net, data, 3)\n'
    texts = Texts({"train.py": ast.parse(text), **{f"{name}.py": ast.parse(one) for name, one in others.items()}})
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# made" in one)
    return unused(texts, "train.py", line, kind)


NEVER = {
    "in a loop of its own function": MAIN,
    "its rate is shown and it is saved": MAIN
    + "        print(schedule.get_last_lr())\n        torch.save({'s': schedule.state_dict()}, 'a.pt')\n",
    "at the module": """
optimizer = SGD(model.parameters())
schedule = StepLR(optimizer, 10)  # made
for step in range(10):
    model(x).backward()
    optimizer.step()
""",
    "a function returns it beside others": """
def build(model):
    optimizer = SGD(model.parameters())
    return model, optimizer, StepLR(optimizer, 10)  # made

model, optimizer, schedule = build(net)
for step in range(10):
    model(x).backward()
    optimizer.step()
""",
    "an object keeps it": """
class Agent:
    def __init__(self, net):
        self.optimizer = SGD(net.parameters())
        self.schedule = StepLR(self.optimizer, 10)  # made

    def learn(self, x):
        self.net(x).backward()
        self.optimizer.step()
""",
    "the only function that steps it is never called": MAIN
    + """
class Brought:
    def __init__(self, schedule):
        self.schedule = schedule

    def advance(self):
        self.schedule.step()
""",
    "an environment is stepped": MAIN + "        state, reward = env.step(action)\n",
    "a list of them is gone through and shown": MAIN
    + "        for one in [schedule]:\n            print(one.last_epoch)\n",
}


@pytest.mark.parametrize("text", NEVER.values(), ids=NEVER.keys())
def test_what_no_line_steps_is_known(text: str) -> None:
    assert told(text)


MAY = {
    "in a branch": MAIN + "        if step > 5000:\n            schedule.step()\n",
    "in a list with others": MAIN + "        for one in (optimizer, schedule):\n            one.step()\n",
    "a comprehension": MAIN + "        [one.step() for one in held.values()]\n    held = {'a': schedule}\n",
    "a function has it under another name": MAIN + "        advance(x, s=schedule)\ndef advance(x, s):\n    s.step()\n",
    "stars": MAIN + "        advance(*given)\n    given = x, schedule\ndef advance(a, b):\n    b.step()\n",
    "its method is handed on": MAIN + "        hooks.append(schedule.step)\n",
    "a library gets it": MAIN + "        engine.add(Saver(schedule))\n",
    "a library gets it in a dictionary": MAIN + "    fit(model, config={'schedule': schedule})\n",
    "a library asks for it": """
class Task(LightningModule):
    def configure_optimizers(self):
        optimizer = Adam(self.parameters())
        return [optimizer], [StepLR(optimizer, 10)]  # made
""",
    "a library's class keeps it": """
class Task(Trainer):
    def prepare(self, optimizer):
        self.schedule = StepLR(optimizer, 10)  # made
""",
    "a class that is made of a library's keeps it": """
class Own(Trainer):
    pass

class Task(Own):
    def prepare(self, optimizer):
        self.schedule = StepLR(optimizer, 10)  # made
""",
    "a closure": MAIN + "    after = lambda: schedule\n",
    "a generator": MAIN + "    yield schedule\n",
    "it is asked for by its name": MAIN + "        getattr(agent, 'schedule').step()\n    agent.x = 1\n",
    "names that nobody can tell": MAIN + "        getattr(agent, name)()\n",
    "code in quotes": MAIN + "        exec(line)\n",
    "it is set on another object": MAIN + "    trainer.schedule = schedule\n",
    "another one is made of it": MAIN + "    both = SequentialLR(optimizer, [schedule])\n    both.step()\n",
    "it is made by nobody knows whom": MAIN.replace("StepLR(optimizer, 10)", "prepare(optimizer)"),
    "nothing keeps it": MAIN.replace("schedule = ", ""),
    "two are made at once": MAIN.replace("StepLR(optimizer, 10)", "StepLR(optimizer, 10), StepLR(optimizer, 20)"),
    "a decorated function calls it": MAIN + "@engine.on('epoch')\ndef advance():\n    schedule.step()\n",
    "a callback calls it": MAIN
    + "class Then(Callback):\n    def __init__(self, s):\n        self.s = s\n\n    def on_end(self):\n        self.s.step()\n"
    + "fit(Then(schedule))\n",
    "the field of a dataclass": MAIN + "    held = Held(schedule)\n@dataclass\nclass Held:\n    s: object\n",
    "a default": MAIN + "    def later(s=schedule):\n        s.step()\n    later()\n",
    "a while and a walrus": MAIN + "        while (now := schedule):\n            now.step()\n",
    "a with": MAIN + "        with schedule as s:\n            s.step()\n",
    "another file takes it in": "optimizer = SGD(net.parameters())\nschedule = StepLR(optimizer, 10)  # made\n",
}


@pytest.mark.parametrize("text", MAY.values(), ids=MAY.keys())
def test_what_a_line_may_step_or_nobody_can_tell_is_left(text: str) -> None:
    assert not told(text, other="from train import schedule as held\ndef after():\n    held.step()\nafter()\n")


SECOND = """
def main(model, head, x):
    optimizer = Adam(model.parameters())
    second = Adam(head.parameters())  # made
    schedule = StepLR(second, 10)
    for step in range(100):
        head(model(x)).mean().backward()
        optimizer.step()
        schedule.step()
"""


@pytest.mark.parametrize(
    ("more", "never"),
    [
        ("", True),
        ("        second.zero_grad()\n        scaler.unscale_(second)\n", True),
        ("        second.step()\n", False),
        ("        scaler.step(second)\n", False),
        ("    accelerator.prepare(second)\n", False),
    ],
)
def test_a_second_optimizer_is_known_beside_its_schedule(more: str, never: bool) -> None:
    assert told(SECOND + more, "Adam") == never
