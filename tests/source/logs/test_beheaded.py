"""A file that begins in the middle of a traceback, and lines in which a program only warns."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose
from preflight.source.logs import read_logs

FRAMES = """\
  File "/env/torch/_dynamo/output_graph.py", line 1493, in _call_user_compiler
    raise BackendCompilerFailed(self.compiler_fn, e).with_traceback(
  File "/env/torch/_inductor/compile_fx.py", line 1886, in compile_fx
    return aot_autograd(
"""


def _read(folder: Path, text: str) -> tuple[str, ...]:
    (folder / "run.log").write_text(text)
    return tuple(one.exception for one in read_logs([folder]).raised)


def test_a_traceback_without_its_head_is_read(tmp_path: Path) -> None:
    assert _read(tmp_path, FRAMES + "RuntimeError: no kernel\nstep 1 loss 2.0\n") == ("RuntimeError",)


def test_where_it_was_raised_tells_what_it_is_though_both_ends_are_cut_off(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(FRAMES)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == "compile"


NOTEBOOK = """\
[/env/torch/optim/adam.py](https://localhost:8080/#) in _multi_tensor_adam(params, grads, state_steps)
    517         if state_steps[0].is_cpu:
--> 518             torch._foreach_add_(
    519                 state_steps, torch.tensor(1.0, device="cpu"), alpha=1.0

"""


def test_a_notebooks_traceback_without_its_head_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(NOTEBOOK + "RuntimeError: Error(s) in loading state_dict for Net:\n")
    (raised,) = read_logs([tmp_path]).raised
    assert (raised.exception, [one.function for one in raised.frames]) == ("RuntimeError", ["_multi_tensor_adam"])


def test_what_is_raised_as_an_interrupt_breaks_a_notebook_off_follows_from_it_though_the_head_is_cut_off(
    tmp_path: Path,
) -> None:
    after = (
        "KeyboardInterrupt: \n\nDuring handling of the above exception, another exception occurred:\n\n"
        "NameError                                 Traceback (most recent call last)\n"
        "[<ipython-input-1-2c9b0f02eea8>](https://localhost:8080/#) in <cell line: 69>()\n"
        "     68 \n---> 69 run(\n     70     epochs=epochs,\n\nNameError: name 'best' is not defined\n"
    )
    (tmp_path / "run.log").write_text(NOTEBOOK + after)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == "preemption"


def test_a_box_without_its_head_is_read(tmp_path: Path) -> None:
    box = """\
│ /env/torch/_dynamo/symbolic_convert.py:538 in run                  │
│                                                                    │
│    537 │   │   │   │   and not self.output.should_exit             │
│ ❱  538 │   │   │   │   and self.step()                             │
│    539 │   │   │   ):                                              │
╰────────────────────────────────────────────────────────────────────╯
"""
    (tmp_path / "run.log").write_text(box + "AssertionError: builtin_function_or_method\n")
    (raised,) = read_logs([tmp_path]).raised
    assert (raised.exception, [one.function for one in raised.frames]) == ("AssertionError", ["run"])
    (tmp_path / "run.log").write_text(box)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == "compile"


def test_a_table_is_no_box_of_a_traceback(tmp_path: Path) -> None:
    assert _read(tmp_path, "| train.py:12 in main | 3 s |\n| 4 steps | 2 s |\nRuntimeError: x\n") == ()


def test_the_code_of_a_cell_is_no_frame(tmp_path: Path) -> None:
    assert _read(tmp_path, "train.py in main(\nstep 1 loss 2.0\nRuntimeError: x\n") == ()


def test_one_with_its_head_is_read_once(tmp_path: Path) -> None:
    assert _read(tmp_path, "Traceback (most recent call last):\n" + FRAMES + "RuntimeError: x\n") == ("RuntimeError",)


def test_frames_further_down_are_none(tmp_path: Path) -> None:
    assert _read(tmp_path, "step 1 loss 2.0\n" * 100 + FRAMES + "RuntimeError: x\n") == ()


def test_a_dump_of_stacks_is_none(tmp_path: Path) -> None:
    assert _read(tmp_path, 'Thread 0x1 (most recent call first):\n  File "/a/b.py", line 3 in wait\n') == ()


def test_warnings_are_told_and_decide_nothing(tmp_path: Path) -> None:
    lines = [
        f"2025-03-02 10:00:{second:02} WARNING the frobnicator of shard {second} was not aligned" for second in range(9)
    ]
    steps = [f"2025-03-02 10:01:{second:02} INFO step {second} loss 2.{second:02}" for second in range(30)]
    (tmp_path / "run.log").write_text("\n".join(lines + steps) + "\n")
    (unknown,) = read_logs([tmp_path]).unknown
    assert (unknown.count, unknown.warning) == (9, True)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == "none"
    assert [one.warning for one in incident.unknown] == [True]
