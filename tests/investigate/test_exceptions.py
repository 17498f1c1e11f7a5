"""What an exception is taken for, by itself, without a traceback, or cut off before its name."""

from __future__ import annotations

import pytest

from preflight.investigate.exceptions import meaning_of
from preflight.vocabulary.log import Frame, Hit, Raised


def hit(text: str) -> Hit:
    return Hit(signature="", file=0, line=1, offset=0, text=text)


def test_a_cut_off_traceback_names_nothing() -> None:
    mine = Raised(exception="", message="", frames=(Frame("train.py", 27, "<module>"),), hit=hit("x"))
    launcher = Raised(
        exception="", message="", frames=(Frame("/env/torch/distributed/run.py", 753, "run"),), hit=hit("x")
    )
    assert (meaning_of(mine).category, meaning_of(mine).role) == ("other", "cascade")
    assert meaning_of(launcher).role == "teardown"


@pytest.mark.parametrize(
    ("exception", "message", "category"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/scratch/coco/train2017/000000001.jpg'", "data"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'out/last.ckpt'", "checkpoint"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", "environment"),
        ("requests.exceptions.ConnectionError", "HTTPSConnectionPool(host='huggingface.co', port=443)", "environment"),
        ("ConnectionError", "rank 3 is away", "network"),
        ("omegaconf.errors.ConfigAttributeError", "Key 'lr' is not in struct", "environment"),
        ("KeyError", "'labels'", "usercode"),
    ],
)
def test_what_its_class_and_its_message_say(exception: str, message: str, category: str) -> None:
    raised = Raised(exception=exception, message=message, frames=(), hit=hit("x"))
    assert meaning_of(raised).category == category


@pytest.mark.parametrize(
    ("exception", "path", "function", "expected"),
    [
        ("ValueError", "/env/accelerate/commands/launch.py", "_validate_launch_command", ("environment", "root")),
        ("ValueError", "/env/deepspeed/launcher/runner.py", "fetch_hostfile", ("environment", "root")),
        ("NameError", "/env/deepspeed/launcher/runner.py", "sigkill_handler", ("other", "teardown")),
        ("ValueError", "/env/deepspeed/launcher/launch.py", "sigkill_handler", ("other", "teardown")),
        ("CalledProcessError", "/env/accelerate/commands/launch.py", "simple_launcher", ("other", "teardown")),
    ],
)
def test_a_launcher_is_at_fault_only_where_it_speaks_of_its_arguments(
    exception: str, path: str, function: str, expected: tuple[str, str]
) -> None:
    raised = Raised(exception=exception, message="wrong", frames=(Frame(path, 3, function),), hit=hit("x"))
    assert (meaning_of(raised).category, meaning_of(raised).role) == expected


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("the new group's rank should be within the world_size set by init_process_group", "usercode"),
        ("Connection reset by peer", "network"),
        ("Timed out waiting for clients", "network"),
        ("", "network"),
    ],
)
def test_what_checks_arguments_where_processes_talk_is_not_about_the_network(message: str, category: str) -> None:
    frames = (Frame("train.py", 3, "main"), Frame("/env/torch/distributed/distributed_c10d.py", 4, "new_group"))
    assert (
        meaning_of(Raised(exception="RuntimeError", message=message, frames=frames, hit=hit("x"))).category == category
    )
