"""Which of several things that a log tells decides: the last of several starts, an exception above a trend, numbers that stay away."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_SHAPES = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss = net(x)
  File "net.py", line 30, in forward
    return a + b
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1
"""
_NO_TORCH = """\
Traceback (most recent call last):
  File "main.py", line 3, in <module>
    import torch
ModuleNotFoundError: No module named 'torch'
"""


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def test_a_program_that_started_after_one_that_lacked_a_package(tmp_path: Path) -> None:
    bars = "Epoch 1/80\nTrain:   0%|          | 0/129 [00:00<?, ?it/s]\n"
    assert told(tmp_path, _NO_TORCH + bars + _SHAPES).category == "usercode"


def test_a_package_that_is_missing_and_nothing_behind_it(tmp_path: Path) -> None:
    assert told(tmp_path, _NO_TORCH).category == "environment"


def test_what_a_logger_warned_of_before_something_else_broke(tmp_path: Path) -> None:
    warned = "\x1b[33;40m(WARNING)[base.py:475]  loaded state dict contains a parameter group that doesn't match the size of optimizer's group\x1b[0m\n"
    assert told(tmp_path, "(INFO)[base.py:88]  start\n" + warned + _SHAPES).category == "usercode"
    assert told(tmp_path, "(INFO)[base.py:88]  start\n" + warned).category == "checkpoint"


def test_an_exception_decides_above_a_loss_that_rose_before_it(tmp_path: Path) -> None:
    steps = "".join(f"step {at} loss {0.1 + 1 / at if at < 40 else 3.0 + at / 900:.5f}\n" for at in range(1, 90))
    assert told(tmp_path, steps).category == "numerical"
    assert told(tmp_path, steps + _SHAPES).category == "usercode"


def test_a_bare_assertion_does_not_take_the_next_line_for_its_message(tmp_path: Path) -> None:
    text = (
        "[rank6]: Traceback (most recent call last):\n"
        '[rank6]:   File "/home/me/train.py", line 609, in main\n'
        "[rank6]:     assert not training_args.visual_und\n"
        "[rank6]: AssertionError\n"
        "[rank6]:[W1025 22:01:04.973896433 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed"
        " before we destruct ProcessGroupNCCL. Call destroy_process_group to ensure that any pending NCCL operations have finished.\n"
    )
    assert told(tmp_path, text).category == "usercode"


@pytest.mark.parametrize(
    ("error", "code", "category"),
    [
        ("KeyError: 'text'", "logger.info(f\"{raw_datasets['train'][index]['text']}\")", "data"),
        ("KeyError: 'text'", "train = raw_datasets['text']", "usercode"),
        ("EOFError: EOF when reading a line", "output = input('Save the results? (y/n)')", "usercode"),
        ("AttributeError: 'Trainer' object has no attribute '_print_best'", "self._print_best()", "usercode"),
        ("AttributeError: 'Trainer' object has no attribute 'tokenizer'", "trainer.tokenizer.save()", "environment"),
        (
            "ValueError: Not enough resources in the cluster to allocate to the trial.",
            "raise ValueError(",
            "environment",
        ),
    ],
)
def test_by_the_line_that_asks(tmp_path: Path, error: str, code: str, category: str) -> None:
    text = f'Traceback (most recent call last):\n  File "/home/me/run.py", line 9, in main\n    {code}\n{error}\n'
    assert told(tmp_path, text).category == category


def test_every_evaluation_is_no_number_and_the_training_ends(tmp_path: Path) -> None:
    lines = "{'eval_loss': nan, 'eval_runtime': 17.5, 'epoch': 1.0}\n{'train_runtime': 64.4, 'train_loss': 0.444, 'epoch': 2.0}\n"
    assert told(tmp_path, lines * 3 + "{'eval_loss': nan, 'eval_runtime': 17.7}\n").category == "numerical"


def test_an_evaluation_that_is_a_number_again(tmp_path: Path) -> None:
    first = "{'eval_loss': nan, 'eval_runtime': 17.5, 'epoch': 1.0}\n"
    steps = "".join(f"{{'loss': 0.{9 - at}, 'learning_rate': 0.0005, 'epoch': 1.{at}}}\n" for at in range(1, 9))
    assert told(tmp_path, first + steps + "{'train_runtime': 64.4, 'train_loss': 0.444}\n").category == "none"


def test_rewards_that_are_no_numbers_beside_a_loss_of_nought(tmp_path: Path) -> None:
    steps = "".join(
        f"{{'loss': 0.0, 'learning_rate': 0.0005, 'rewards/chosen': nan, 'logps/chosen': nan, 'epoch': 0.{at}}}\n"
        for at in range(1, 9)
    )
    assert (
        told(tmp_path, steps + "{'train_runtime': 4730.6, 'train_loss': 7.0, 'epoch': 1.0}\n").category == "numerical"
    )


def test_a_start_that_goes_on_behind_one_whose_port_was_taken(tmp_path: Path) -> None:
    head = "2025-02-04 22:{minute}:00,911 INFO: [run..][epoch:  0, iter:{step:8}, lr:(3.000e-05,)] [eta: 4:06:17, time (data): 1.663 (0.247)] l_pix: 8.19e-03\n"
    steps = "".join(head.format(minute=20 + at, step=100 * at) for at in range(1, 8))
    port = (
        'Traceback (most recent call last):\n  File "/env/bin/torchrun", line 33, in <module>\n    sys.exit(main())\n'
        "RuntimeError: The server socket has failed to listen on any local network address. port: 4321, useIpv6: 0, code: -98,"
        " name: EADDRINUSE, message: address already in use\n"
    )
    assert told(tmp_path, port).category == "environment"
    assert told(tmp_path, "Start training from epoch: 0, iter: 0\n" + port + steps).category == "none"


def test_a_logger_tells_of_a_module_of_the_program_that_is_missing_before_its_frames(tmp_path: Path) -> None:
    error = "ModuleNotFoundError: No module named 'models.blocks'\n"
    frames = (
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 3, in <module>\n    from models.net import Net\n'
        '  File "/job/models/net.py", line 2, in <module>\n    from models.blocks import Block\n'
    )
    incident = told(tmp_path, f"2026-02-11 09:00:00,000 ERROR trial 3 failed: {error}{frames}{error}")
    assert (incident.root_category, incident.signature) == ("usercode", "usercode.own-module-missing")


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_card_that_the_driver_has_lost_and_kernels_that_fail_on_it(tmp_path: Path, *, lost_first: bool) -> None:
    steps = "".join(f"step {step} loss {3 - step / 20:.3f}\n" for step in range(20))
    lines = ["pynvml.NVMLError_GpuIsLost: GPU is lost\n", "RuntimeError: CUDA error: unspecified launch failure\n"]
    incident = told(tmp_path, steps + "".join(lines if lost_first else lines[::-1]))
    assert (incident.category, incident.signature) == ("hardware", "hardware.card-is-lost")
