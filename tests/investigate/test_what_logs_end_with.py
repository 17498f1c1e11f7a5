"""What stands last in a log, and whose it is: kills, signals, threads of a tracker, names that a library does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_STEPS = "".join(f"step {step} loss {2.0 - step / 100:.4f}\n" for step in range(1, 60))
_LIBRARY = "/env/lib/python3.12/site-packages"


def told(folder: Path, text: str, name: str = "run.log") -> Incident:
    (folder / name).write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def raised(error: str, *frames: tuple[str, str, str]) -> str:
    shown = "".join(f'  File "{path}", line 9, in {function}\n    {code}\n' for path, function, code in frames)
    return f"Traceback (most recent call last):\n{shown}{error}\n"


def test_a_shell_says_killed_right_behind_a_step(tmp_path: Path) -> None:
    bars = "".join(f" {at}/5000 [=>....] - ETA: 2:32:37 - Train Loss: 2.{at}\n" for at in range(20, 400, 20))
    assert told(tmp_path, bars + " 400/5000 [=>....] - ETA: 2:32:37 - Train Loss: 2.1694Killed\n").category == "oom"


def test_the_first_words_of_the_runtime_for_a_full_card(tmp_path: Path) -> None:
    text = (
        "/torch/bin/luajit: /torch/nn/Module.lua:271: cuda runtime error (2) : out of memory at /tmp/THCStorage.cu:40\n"
    )
    assert told(tmp_path, _STEPS + text).category == "oom"


def test_what_a_program_printed_and_went_on_behind_before_does_not_end_it(tmp_path: Path) -> None:
    caught = "error!! index 6 is out of bounds for dimension 0 with size 6\n"
    steps = "".join(f"step {step} loss 1.{step}\n{caught}" for step in range(1, 9))
    assert told(tmp_path, steps + "*** SIGTERM received at time=1756174802 on cpu 91 ***\n").category == "preemption"


def test_such_a_line_is_all_that_is_known_where_nothing_else_is(tmp_path: Path) -> None:
    caught = "error!! index 6 is out of bounds for dimension 0 with size 6\n"
    steps = "".join(f"step {step} loss 1.{step}\n{caught}" for step in range(1, 9))
    assert told(tmp_path, steps).category == "usercode"


def test_a_loader_worker_that_was_asked_to_end(tmp_path: Path) -> None:
    asked = raised(
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated. ", ("t.py", "run", "wait()")
    )
    left = raised("RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly", ("t.py", "run", "next(it)"))
    middle = "\nThe above exception was the direct cause of the following exception:\n\n"
    assert told(tmp_path, _STEPS + asked + middle + left).category == "preemption"


def test_threads_of_a_tracker_that_outlive_a_training(tmp_path: Path) -> None:
    frames = (
        ("/env/lib/python3.12/threading.py", "_bootstrap_inner", "self.run()"),
        (f"{_LIBRARY}/tensorboardX/event_file_writer.py", "run", "data = self._queue.get(True, wait)"),
        ("/env/lib/python3.12/multiprocessing/connection.py", "_check_closed", 'raise OSError("handle is closed")'),
    )
    text = "Exception in thread Thread-1:\n" + raised("OSError: handle is closed", *frames)
    assert told(tmp_path, _STEPS + text).category == "none"


def test_the_same_in_the_main_thread_is_a_failure(tmp_path: Path) -> None:
    frames = (
        ("train.py", "<module>", "main()"),
        ("/env/lib/python3.12/multiprocessing/connection.py", "_check_closed", 'raise OSError("handle is closed")'),
    )
    assert told(tmp_path, _STEPS + raised("OSError: handle is closed", *frames)).category != "none"


@pytest.mark.parametrize(
    ("error", "frame", "category"),
    [
        (
            "TypeError: train() got an unexpected keyword argument 'verbose'",
            ("/home/me/fit.py", "objective", "model = lgb.train(params, data, verbose=0)"),
            "environment",
        ),
        (
            "TypeError: train() got an unexpected keyword argument 'verbose'",
            ("/home/me/fit.py", "objective", "model = train(params, data, verbose=0)"),
            "usercode",
        ),
        (
            "TypeError: build() got an unexpected keyword argument 'split'",
            ("/home/me/fit.py", "main", "data = datasets.build(args, split='train')"),
            "usercode",
        ),
        (
            "KeyError: 'winograde'",
            (f"{_LIBRARY}/lm_eval/tasks/__init__.py", "get_task", "return TASK_REGISTRY[task_name]"),
            "environment",
        ),
        ("KeyError: 'winograde'", ("/home/me/tasks.py", "get_task", "return tasks[task_name]"), "usercode"),
        (
            "KeyError: 'Missing task winograde'",
            (f"{_LIBRARY}/lm_eval/tasks/__init__.py", "get_task", 'raise KeyError(f"Missing task {name}")'),
            "environment",
        ),
        (
            "FileNotFoundError: [Errno 2] Unable to synchronously create file (name = 'out/x.h5', errno = 2, o_flags = 242)",
            ("h5py/h5f.pyx", "h5py.h5f.create", ""),
            "usercode",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/openwebtext/train.bin'",
            ("/home/me/train.py", "get_batch", "data = np.memmap(path)"),
            "data",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'out/pytorch_model.bin'",
            ("/home/me/train.py", "main", "torch.load(path)"),
            "checkpoint",
        ),
        (
            "ValueError: The port number of the rendezvous endpoint 'None:None' must be an integer between 0 and 65536.",
            (f"{_LIBRARY}/torch/distributed/elastic/rendezvous/utils.py", "parse_rendezvous_endpoint", "raise ValueError("),
            "environment",
        ),
        (
            "TypeError: argument 'ids': 'list' object cannot be interpreted as an integer",
            (f"{_LIBRARY}/transformers/tokenization_utils_fast.py", "_decode", "text = self._tokenizer.decode(ids)"),
            "usercode",
        ),
        ("sqlite3.OperationalError: disk I/O error", ("/home/me/a.py", "fetch", "self.cursor.execute(q)"), "environment"),
        (
            "TypeError: load() missing 1 required positional argument: 'Loader'",
            ("/home/me/a.py", "main", "config = yaml.load(f)"),
            "environment",
        ),
    ],
)  # fmt: skip
def test_whose_it_is(tmp_path: Path, error: str, frame: tuple[str, str, str], category: str) -> None:
    assert told(tmp_path, raised(error, ("/home/me/main.py", "<module>", "main()"), frame)).category == category


@pytest.mark.parametrize(("asks", "category"), [(f"{_LIBRARY}/transformers/modeling.py", "environment"), ("/home/me/net.py", "usercode")])  # fmt: skip
def test_who_looks_for_a_part_that_a_network_lacks(tmp_path: Path, asks: str, category: str) -> None:
    frames = (
        ("/home/me/main.py", "<module>", "main()"),
        (asks, "forward", "kind = self.q_proj.weight.dtype"),
        (f"{_LIBRARY}/torch/nn/modules/module.py", "__getattr__", "raise AttributeError("),
    )
    text = raised("AttributeError: 'QuantizedLinear' object has no attribute 'weight'", *frames)
    assert told(tmp_path, text).category == category


def test_a_search_tells_of_an_exception_before_it_stands_with_its_frames(tmp_path: Path) -> None:
    said = "TypeError(\"train() got an unexpected keyword argument 'verbose'\")"
    text = raised(
        "TypeError: train() got an unexpected keyword argument 'verbose'",
        ("/home/me/fit.py", "objective", "model = lgb.train("),
    )
    head = f"[W 2025-06-12 11:28:49,299] Trial 0 failed with parameters: {{}} because of the following error: {said}.\n"
    assert told(tmp_path, head + text).category == "environment"


def test_a_job_that_got_a_signal(tmp_path: Path) -> None:
    text = "[2026-05-11T17:35:01.672] error: *** JOB 25 ON gpu1 CANCELLED AT 2026-05-11T17:35:01 DUE to SIGNAL Terminated ***\n"
    incident = told(tmp_path, _STEPS + text)
    assert (incident.category, incident.signature) == ("preemption", "preemption.slurm-cancelled")


def test_a_shell_says_killed_behind_a_bar_that_another_one_stands_above(tmp_path: Path) -> None:
    bars = "".join(f"\r  {at}%|## | {at}/99 [00:10<01:12,  1.71s/it]\x1b[A\n" for at in range(1, 60))
    killed = "\r 60%|## | 60/99 [00:10<01:12,  1.71s/it]\x1b[A./run.sh: line 33: 136834 Killed     python3 main.py\n"
    assert told(tmp_path, bars + killed).category == "oom"


def test_an_arithmetic_fault_alone_says_no_more_than_a_segmentation_fault_does(tmp_path: Path) -> None:
    assert (
        told(tmp_path, _STEPS + "run.sh: line 4: 815 Floating point exception (core dumped) python3 main.py\n").category
        == "other"
    )


def test_a_notebook_whose_server_is_gone_was_ended_from_outside(tmp_path: Path) -> None:
    error = raised(
        "OSError: [Errno 5] Input/output error",
        ("/env/lib/python3.7/logging/__init__.py", "flush", "self.stream.flush()"),
    )
    message = "Message: 'Parent appears to have exited, shutting down.'\nArguments: ()\n"
    assert told(tmp_path, _STEPS + "--- Logging error ---\n" + error + message).category == "preemption"


@pytest.mark.parametrize("label", ["", "[rank1]: "])
def test_an_exception_that_was_handled_is_not_told_beside_the_one_that_came_of_it(tmp_path: Path, label: str) -> None:
    handled = raised("ValueError: the dataset is short", ("/job/train.py", "main", "read()"))
    then = raised("KeyboardInterrupt", ("/job/train.py", "main", "time.sleep(1)"))
    text = f"{handled}\nDuring handling of the above exception, another exception occurred:\n\n{then}"
    assert told(tmp_path, "".join(f"{label}{line}\n" for line in text.splitlines())).category == "preemption"


@pytest.mark.parametrize("label", ["", "[rank1]: "])
def test_what_a_rank_raised_before_it_met_the_others_to_end_is_the_root(tmp_path: Path, label: str) -> None:
    first = raised("IndexError: list index out of range", ("/job/train.py", "guarded", "rows[7]"))
    meets = (f"{_LIBRARY}/torch/distributed/distributed_c10d.py", "barrier", "work.wait()")
    then = raised(
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:12419",
        ("/job/train.py", "guarded", "dist.barrier()"),
        meets,
    )
    text = f"{first}\nDuring handling of the above exception, another exception occurred:\n\n{then}"
    assert told(tmp_path, "".join(f"{label}{line}\n" for line in text.splitlines())).category == "usercode"


def test_a_card_that_wants_a_reset_is_told_as_that(tmp_path: Path) -> None:
    refused = "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status"
    steps = "".join(f"step {at} | loss: {5 - at / 50:.3f}\n" for at in range(1, 60))
    (tmp_path / "run.log").write_text(f"{steps}[373871.354096] {refused} @ kernel_channel.c:2827\n")
    incident = diagnose([str(tmp_path)]).incident
    assert incident is not None
    assert incident.signature == "hardware.reset-required"
