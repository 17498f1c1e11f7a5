"""Who is called in a program's text, and what is come to once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from preflight.monitor.collect.texts import Texts

OWN = """
class Average:
    def update(self, model):
        self.inner(model)

    def inner(self, model):
        pass

def main():
    average = Average()
"""


def dead(text: str) -> set[str]:
    """The functions that nobody calls."""
    texts = Texts({"train.py": ast.parse(text)})
    return {
        one.name for one in ast.walk(texts.trees["train.py"]) if isinstance(one, ast.FunctionDef) and texts.is_dead(one)
    }


def test_functions_that_nobody_calls_are_known_and_those_that_they_call() -> None:
    assert dead(OWN + "main()\n") == {"update", "inner"}


@pytest.mark.parametrize(
    "more",
    [
        "average.update(net)\n",
        "hooks.append(average.update)\n",
        "call_by_name(average, 'update')\n",
        "getattr(average, name)(net)\n",
        "eval(line)\n",
    ],
)
def test_what_may_be_called_is_not_among_them(more: str) -> None:
    assert "update" not in dead(OWN + "main()\n" + more)


@pytest.mark.parametrize(
    "head", ["class Average(Callback):", "@register\nclass Average:", "class Average(metaclass=M):"]
)
def test_nor_what_a_library_calls(head: str) -> None:
    assert dead(OWN.replace("class Average:", head) + "main()\n") == set()


def test_what_is_come_to_once() -> None:
    texts = Texts(
        {
            "train.py": ast.parse(
                "def start():\n    once()\ndef main():\n    start()\n    for _ in range(3):\n        often()\n"
                "    twice()\n    twice()\ndef twice():\n    inner()\nmain()\n"
            )
        }
    )
    calls = {one.func.id: one for one in texts.nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
    assert {name for name, call in calls.items() if texts.runs_once(call)} == {"once", "start", "twice", "main"}


def test_files_that_cannot_be_read_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("x = (\n")
    assert Texts.of([str(tmp_path / "a.py")]) is not None
    assert Texts.of([str(tmp_path / "a.py"), str(tmp_path / "b.py")]) is None
    assert Texts.of([str(tmp_path / "c.py")]) is None


def test_a_module_beside_that_was_not_taken_in_yet_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text("x = 1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text("x = 1\n")
    for line, more in [
        ("import later", True),
        ("import os, json.decoder", False),
        ("from package.part import x", True),
        ("from package import part", True),
        ("from . import later", True),
    ]:
        (tmp_path / "train.py").write_text(f"def main():\n    {line}\n")
        texts = Texts.of([str(tmp_path / "train.py")])
        assert texts is not None
        assert texts.has_more() == more, line
    both = Texts.of([str(tmp_path / "train.py"), str(tmp_path / "later.py")])
    assert both is not None
    assert not both.has_more()


@pytest.mark.parametrize(
    "text",
    [
        "group['lr'] = 0.1",
        "group.update(lr=0.1)",
        "group.update({'lr': 0.1})",
        "group |= {'lr': 1}",
        "g['lr'].fill_(1)",
    ],
)
def test_what_is_stored_under_a_key_is_known(text: str) -> None:
    assert Texts({"a.py": ast.parse(text)}).sets("lr")


@pytest.mark.parametrize("text", ["print(group['lr'])", "bar.update(1)", "seen.update({'rate': group['lr']})"])
def test_what_is_only_read_under_a_key_is_not_stored(text: str) -> None:
    assert not Texts({"a.py": ast.parse(text)}).sets("lr")


@pytest.mark.parametrize(
    "text",
    [
        "for p in net.parameters():\n    seen.append(p.grad.norm())",
        "begin = time.time()",
        "begin = perf_counter()",
        "net.register_full_backward_hook(keep)",
        "print(torch.cuda.max_memory_allocated())",
    ],
)
def test_passes_that_may_be_made_for_what_is_measured(text: str) -> None:
    assert Texts({"a.py": ast.parse(text)}).measures()


def test_clearing_gradients_measures_nothing() -> None:
    text = "optimizer.zero_grad()\np.grad = None\ntime.sleep(1)\np.requires_grad_(False)\n"
    assert not Texts({"a.py": ast.parse(text)}).measures()
