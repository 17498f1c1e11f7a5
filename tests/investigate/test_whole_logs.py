"""Whole logs as people keep them: several starts appended, a table before the run, drawn bars, letters of several bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs.steps import step_of
from preflight.source.logs.styles import is_text
from preflight.vocabulary.incident import Incident

CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 90, in <module>\n    main()\n'
    '  File "train.py", line 40, in main\n    {code}\n'
    "{error}\n"
)


def told(folder: Path, text: str, **more: str) -> Incident:
    """Investigate a log, with further files by name."""
    (folder / "run.log").write_text(text, encoding="utf-8")
    for name, content in more.items():
        (folder / f"{name}.err").write_text(content, encoding="utf-8")
    incident = diagnose([str(folder)]).incident
    assert incident is not None
    return incident


def test_of_starts_that_one_script_appended_the_last_one_counts(tmp_path: Path) -> None:
    first = CRASH.format(code="a, b = batch", error="ValueError: too many values to unpack (expected 2)")
    last = CRASH.format(
        code="net(x)", error="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )
    incident = told(tmp_path, f"Loaded module: python\n{first}Loaded module: python\n{last}")
    assert incident.category == "oom"
    assert [one.category for one in incident.attempts] == ["usercode", "oom"]


def test_processes_that_die_at_once_are_of_one_start(tmp_path: Path) -> None:
    first = CRASH.format(code="a, b = batch", error="ValueError: too many values to unpack (expected 2)")
    second = CRASH.format(code="net(x)", error="KeyError: 'x'")
    assert len(told(tmp_path, first + second).attempts) == 1


def test_a_table_of_cards_before_a_run_does_not_hide_the_run(tmp_path: Path) -> None:
    bar = "+-----------------------------------------------------------------------------+\n"
    table = bar + "| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4            |\n" + bar
    table += "|   0  NVIDIA A100      On  | 00000000:07:00.0 Off |                    0 |\n" * 4 + bar
    steps = "".join(f"Iters: {step}/20000 || Lr: 0.015809 || Task Loss: 1.0769\n" for step in range(10, 400, 10))
    incident = told(tmp_path, table + steps)
    assert (incident.category, incident.state) == ("none", "running")


def test_a_sample_that_ends_within_a_letter_is_text() -> None:
    assert is_text("训练".encode()[:-1])
    assert is_text("训练".encode()[1:])
    assert not is_text(b"\x80\x81\xfe\xff" * 50)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Epoch 0/9 ━━━━━━━━━━━━━━━━━━ 291/900 0:28:13 • 1 day, 3:10:10 0.07it/s v_num: 1 train_loss: 0.02", 291),
        ("  1/100   15G   3.565   8.985   109   480: 9% ━───────── 607/6848 2.7it/s 3:39<37:50", 607),
        ("Validation ━━━━━━━━━━━━━━━━━━ 29/90 0:00:13 • 0:10:10 0.07it/s", None),
    ],
)
def test_a_drawn_bar_is_a_step(line: str, step: int | None) -> None:
    found = step_of(line)
    assert (found.step if found is not None else None) == step


@pytest.mark.parametrize("line", ["  validation loss:        nan", "Epoch 5 - val_loss: nan", "training loss: inf"])
def test_a_loss_that_is_no_number_tells_of_a_step(line: str) -> None:
    assert step_of(line) is not None


@pytest.mark.parametrize("line", ["| WARNING: loss is nan.", "if loss: nan", "loss: nan, stopping because of it"])
def test_a_sentence_about_a_loss_tells_of_none(line: str) -> None:
    assert step_of(line) is None


FRAMES = (
    "Traceback (most recent call last):\n"
    '  File "/data/env/lib/python3.10/site-packages/pytorch_lightning/loops/fetchers.py", line 9, in _fetch\n    f()\n'
    '  File "/data/someone/project/model.py", line 7, in {function}\n    g()\n'
    '  File "/data/env/lib/python3.10/site-packages/torch/functional.py", line 5, in stft\n    h()\n'
    "RuntimeError: stft input and window must agree\n"
)


def test_a_disk_that_is_called_data_makes_no_failure_one_of_data(tmp_path: Path) -> None:
    assert told(tmp_path, FRAMES.format(function="forward")).category == "usercode"


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct", "environment"),
        ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "environment"),
        ("pandas.errors.ParserError: Error tokenizing data. Expected 3 fields in line 5, saw 4", "data"),
        ("torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)", "compile"),
        ("lmdb.Error: /share/train: Stale file handle", "data"),
        ("OSError: [Errno 116] Stale file handle: '/mnt/run/step_100'", "checkpoint"),
        ("MemoryError", "oom"),
        ("ValueError: The train_dataset does not implement __len__", "usercode"),
    ],
)
def test_a_last_line_alone_says_what_it_is_about(tmp_path: Path, line: str, category: str) -> None:
    assert told(tmp_path, f"Epoch 1 begins\n{line}\n").category == category


def test_a_launcher_that_was_told_to_end_says_so_where_nothing_else_failed(tmp_path: Path) -> None:
    text = (
        "Step 12 loss: 3.1\nKilling subprocess 4242\nKilling subprocess 4243\nMain process received SIGINT, exiting\n"
    )
    assert told(tmp_path, text).category == "preemption"


def test_what_a_shell_complains_of_is_outlived_by_the_steps_of_another_file(tmp_path: Path) -> None:
    epochs = "".join(f"Epoch {epoch}: Train Loss {1.0 - epoch / 100:.4f}\n" for epoch in range(20))
    shell = 'Lmod has detected the following error: The following module(s) are unknown:\n"python/3.10"\n'
    assert told(tmp_path, epochs, job=shell).category == "none"
    assert told(tmp_path, "waiting\n", job=shell).category == "environment"


def test_epochs_that_begin_again_are_another_run_and_no_divergence(tmp_path: Path) -> None:
    runs = [(0.01, -0.0358), (0.01, 0.1063)]
    text = "".join(
        f"Epoch {epoch}: Train Loss {level + 0.0003 * (epoch % 3):.4f}\n" for _, level in runs for epoch in range(120)
    )
    assert told(tmp_path, text).category == "none"


def test_a_beginning_without_trouble_is_a_run_that_goes_on(tmp_path: Path) -> None:
    begun = "[real_accelerator.py:191:get_accelerator] Setting ds_accelerator to cuda (auto detect)\n"
    assert told(tmp_path, begun).category == "none"
    assert told(tmp_path, begun + "ERROR: something that nobody knows went wrong\n").category == "cannot-tell"


def test_a_process_that_crashed_was_not_cancelled_from_outside(tmp_path: Path) -> None:
    cancelled = "0: slurmstepd: error: *** STEP 4242.0 ON gpu12 CANCELLED AT 2026-01-16T23:05:49 ***\n"
    text = f"srun: error: gpu12: task 0: Segmentation fault\nsrun: Terminating job step 4242.0\n{cancelled}"
    assert told(tmp_path, text).category == "other"


def test_a_total_that_hooks_print_after_a_failure_is_no_end(tmp_path: Path) -> None:
    head = "[07/25 21:44:0{}] detectron2.engine.{}\n"
    failed = head.format(4, "train_loop ERROR: Exception during training:") + CRASH.format(
        code="self._detect_anomaly(losses)", error="FloatingPointError: Loss became infinite or NaN at iteration=1!"
    )
    total = head.format(4, "hooks INFO: Total training time: 0:00:15 (0:00:00 on hooks)")
    closed = CRASH.format(
        code="dist.all_gather(sizes)",
        error="RuntimeError: [gloo/transport/tcp/pair.cc:575] Connection closed by peer [10.0.0.1]:32971",
    )
    start = head.format(0, "train_loop INFO: Starting training from iteration 0")
    for name, content in {"": start, ".rank1": start + closed + total, ".rank2": start + failed + total}.items():
        (tmp_path / f"log.txt{name}").write_text(content, encoding="utf-8")
    incident = diagnose([str(tmp_path)]).incident
    assert (incident.category, incident.culprit.ranks) == ("numerical", (2,))


def test_the_rank_that_complains_first_is_told_beside_the_one_that_it_waits_for(tmp_path: Path) -> None:
    line = "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)"
    said = "".join(f"[rank{rank}]:[E ProcessGroupNCCL.cpp:523] {line.format(rank)}\n  what():  {line.format(rank)}\n"
                   for rank in (1, 2, 3))  # fmt: skip
    incident = told(tmp_path, said)
    assert incident.culprit.ranks == (0,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 1


def test_numbers_alone_are_steps(tmp_path: Path) -> None:
    lines = "".join(f"{step} train {10.0 - step / 100}\n{step} val {10.1 - step / 100}\n" for step in range(50))
    assert told(tmp_path, lines).category == "none"


def test_a_script_that_is_not_there_is_no_healthy_run(tmp_path: Path) -> None:
    assert told(tmp_path, "bash: ./train.sh: No such file or directory\n").category == "environment"


@pytest.mark.parametrize(
    ("frames", "category"),
    [
        ('  File "/x/torch/_inductor/cpp_builder.py", line 331, in _run\n    status = check_output(cmd)\n', "compile"),
        ("", "other"),
    ],
)
def test_a_program_that_a_library_calls_is_no_process_of_the_job(tmp_path: Path, frames: str, category: str) -> None:
    error = "subprocess.CalledProcessError: Command '['g++', 'main.cpp']' returned non-zero exit status 1."
    top = 'Traceback (most recent call last):\n  File "train.py", line 9, in main\n    run()\n'
    assert told(tmp_path, f"{top}{frames}{error}\n").category == category


def test_what_fails_while_records_are_tokenized_is_the_data(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/app/prompts.py", line 418, in tokenize_prompt\n    turns = prompt[0]\nKeyError: 0\n'
    )
    assert told(tmp_path, text).category == "data"


def test_a_further_start_after_an_interrupt_is_told_by_its_steps(tmp_path: Path) -> None:
    steps = "".join(f"===> Epoch[1]({number}00/2500): Loss: 1.1121\n" for number in range(1, 25))
    incident = told(tmp_path, steps + CRASH.format(code="x.cuda()", error="KeyboardInterrupt") + steps)
    assert incident.category == "none"
