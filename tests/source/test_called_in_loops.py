"""What a loop's calls change is not what it was before the loop."""

from __future__ import annotations

from pathlib import Path

from preflight.source.facts.gather import gather
from preflight.source.reading import Reading, read
from preflight.source.script import read_script
from preflight.vocabulary.fact import Fact


def reading_of(tmp_path: Path, text: str) -> Reading:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    return read(read_script(path, str(path)))


AGENT = """
import torch
class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.counter = 0
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)
    def learn(self, x):
        self.count()
        loss = self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
    def count(self):
        {change}
agent = Agent()
while True:
    {call}
    if agent.counter > 2000:
        agent.learn(torch.randn(8, 4))
"""


def test_a_counter_raised_by_a_method_is_not_its_first_value(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, AGENT.format(change="self.counter += 1", call="agent.count()"))
    assert any(e.context.loops() for e in reading.trace.calls(".backward"))


def test_a_counter_that_nothing_raises_keeps_its_value(tmp_path: Path) -> None:
    reading = reading_of(tmp_path, AGENT.format(change="pass", call="agent.count()"))
    assert not any(e.context.loops() for e in reading.trace.calls(".backward"))


def test_a_global_raised_by_a_function(tmp_path: Path) -> None:
    reading = reading_of(
        tmp_path,
        "import torch\nseen = 0\ndef note():\n    global seen\n    seen += 1\n"
        "while True:\n    note()\n    if seen > 10:\n        torch.ones(1).backward()\n",
    )
    assert reading.trace.calls(".backward")


def test_steps_need_a_counter_of_the_innermost_loop(tmp_path: Path) -> None:
    text = (
        "import torch\nnet = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\nk = 0\n"
        "loader = torch.utils.data.DataLoader(object(), batch_size=4)\n"
        "while k < 3:\n    for x in loader:\n        opt.zero_grad()\n        net(x).mean().backward()\n        opt.step()\n"
        "{inner}\n{outer}\n"
    )
    epochs = gather_of(reading_of(tmp_path, text.format(inner="", outer="    k += 1")))
    assert not epochs["steps"].known
    steps = gather_of(reading_of(tmp_path, text.format(inner="        k += 1", outer="")))
    assert steps["steps"].value == 3


def gather_of(reading: Reading) -> dict[str, Fact]:
    from preflight.source.launcher import Launch

    return gather(reading, Launch(), None)


def test_a_tensor_carries_what_is_written_into_it(tmp_path: Path) -> None:
    from preflight.source.trace import provenance

    reading = reading_of(
        tmp_path,
        "import torch\nnet = torch.nn.Linear(2, 2)\nout = torch.zeros(5, 3, 2)\n"
        "for t in range(5):\n    out[t] = net(torch.randn(3, 2))\nloss = out.mean()\nloss.backward()\n",
    )
    loss = reading.trace.calls(".backward")[0].receiver
    assert any(getattr(part, "name", "") == "()" for part in provenance(loss))
