"""Hardware, numbers and ends from outside, as schedulers, health checks, drivers and trainers other than PyTorch's own tell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_STEPS = "".join(f"step {step} loss {2.0 - step / 100:.4f}\n" for step in range(1, 60))
_CANCELLED = "slurmstepd: error: *** JOB 6820 ON n1 CANCELLED AT 2026-11-01T21:03:21 ***\n"


def told(folder: Path, text: str, name: str = "run.log") -> Incident:
    (folder / name).write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def test_a_card_that_had_made_steps_was_not_hidden_by_its_driver(tmp_path: Path) -> None:
    late, first = tmp_path / "late", tmp_path / "first"
    late.mkdir()
    first.mkdir()
    unknown = "RuntimeError: CUDA error: unknown error\n"
    assert told(late, _STEPS + unknown).category == "hardware"
    assert told(first, "loading the model\n" + unknown).category == "environment"


def test_a_link_that_fails_is_the_cause_of_what_the_card_says_behind_it(tmp_path: Path) -> None:
    text = (
        "[5.1] pcieport 0000:00:01.2: AER: Uncorrectable (Non-Fatal) error received from 0000:63:00.0\n"
        "[5.2] nvidia 0000:63:00.0: AER: can't recover (no error_detected callback)\n"
        "[5.3] NVRM: Xid (PCI:0000:63:00): 31, pid=811, name=python, MMU Fault: ENGINE GR_HOST0\n"
    )
    assert told(tmp_path, text).category == "hardware"


@pytest.mark.parametrize("often", [1, 6])
def test_a_gradient_that_is_none_matters_where_no_step_is_made_with_another(tmp_path: Path, often: int) -> None:
    skipped = (
        "[n1:0/8] 2026-03-27 16:10:{:02} (trainer:663) WARNING: The grad norm is nan. Skipping updating the model.\n"
    )
    made = "[n1:0/8] 2026-03-27 16:10:{:02} (trainer:678) INFO: 1epoch:train:{}-{}batch: loss_ctc=86.9, loss=66.8, lr=0.001\n"
    text = "".join(
        (skipped.format(at) if at < often else "") + made.format(at, at * 50 + 1, at * 50 + 50) for at in range(6)
    )
    assert told(tmp_path, text).category == ("numerical" if often > 1 else "none")


def test_a_loss_in_a_column_that_is_wide_is_read(tmp_path: Path) -> None:
    line = "| epoch   1 | {:5d}/ 2983 batches | lr 20.00 | ms/batch 11.61 | loss {:>5} | ppl {:>8}\n"
    text = "".join(line.format(at * 200, "nan", "nan") for at in range(1, 5))
    incident = told(tmp_path, text)
    assert incident.category == "numerical"
    assert incident.attempts[-1].last_step == 800


def test_a_bar_that_ends_in_an_infinite_loss_is_none_of_a_run_that_is_well(tmp_path: Path) -> None:
    bar = "Epoch 1:  40%|####      | {}/10648 [3:54:18<5:53:57,  3.31s/it, loss={}, v_num=12]\n"
    assert told(tmp_path, bar.format(4241, "7.54e+29") + bar.format(4242, "inf")).category == "numerical"


def test_what_a_library_printed_itself_did_not_end_a_job_that_was_cancelled(tmp_path: Path) -> None:
    caught, raised = tmp_path / "caught", tmp_path / "raised"
    caught.mkdir()
    raised.mkdir()
    frames = (
        '  File "/env/lib/python3.12/site-packages/visdom/__init__.py", line 711, in _send\n    data=json.dumps(msg),\n'
        '  File "/env/lib/python3.12/site-packages/requests/adapters.py", line 516, in send\n    raise ConnectionError(e)\n'
    )
    error = "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8097): Max retries exceeded with url: /env\n"
    head = "Setting up a new session...\nTraceback (most recent call last):\n"
    own = '  File "train.py", line 9, in <module>\n    main()\n'
    assert told(caught, head + frames + error + _CANCELLED).category == "preemption"
    assert told(raised, head + own + frames + error + _CANCELLED).category == "environment"


def test_what_the_compiler_warned_of_did_not_end_a_job_that_its_owner_ended(tmp_path: Path) -> None:
    warned = (
        "[2026-11-28 18:18:14,200] torch._dynamo.convert_frame: [WARNING] WON'T CONVERT forward /opt/app/model.py line 124 \n"
        "[2026-11-28 18:18:14,200] torch._dynamo.convert_frame: [WARNING] due to: \n"
        "[2026-11-28 18:18:14,200] torch._dynamo.convert_frame: [WARNING] Traceback (most recent call last):\n"
        "[2026-11-28 18:18:14,200] torch._dynamo.convert_frame: [WARNING] torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
    )
    assert (
        told(tmp_path, warned + "TERM_OWNER: job killed by owner.\nExited with exit code 143.\n").category
        == "preemption"
    )


def test_each_job_that_srun_asks_for_is_a_start_of_its_own(tmp_path: Path) -> None:
    full = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 800.00 MiB\n"
    asked = "srun: job {} queued and waiting for resources\n"
    text = asked.format(1714) + _STEPS + full + asked.format(1728) + "srun: Job has been cancelled\n"
    incident = told(tmp_path, text)
    assert len(incident.attempts) == 2
    assert incident.category == "preemption"


def test_what_a_scheduler_says_twice_no_process_says(tmp_path: Path) -> None:
    said = "slurmstepd: error: *** JOB 6820 ON n1 CANCELLED AT 2026-11-01T21:03:21 DUE TO PREEMPTION ***\n"
    incident = told(tmp_path, "world_size: 2\n" + _STEPS + 2 * said)
    assert incident.category == "preemption"
    assert not any("name the same cause" in reason.text for reason in incident.culprit.reasons)


def test_a_word_whose_time_lines_far_away_tell_was_outlived_where_steps_say_so(tmp_path: Path) -> None:
    lines = _STEPS.splitlines(keepends=True)
    timed = "".join(f"[2026-01-01 00:00:{at:02}] {line}" for at, line in enumerate(lines[:30]))
    word = "Received 15 death signal, shutting down workers\n"
    untimed = "".join(lines[30:])
    assert told(tmp_path, timed + word + untimed + "[2026-01-01 00:20:00] saved\n").category != "preemption"


def test_what_a_person_types_starts_another_program(tmp_path: Path) -> None:
    gone_on, over = tmp_path / "gone_on", tmp_path / "over"
    gone_on.mkdir()
    over.mkdir()
    asked = _STEPS + "Received 2 death signal, shutting down workers\n"
    typed = "(base) user@n1:~/run$ python train.py --resume\n"
    more = "".join(f"step {step} loss 1.3\n" for step in range(60, 70))
    incident = told(gone_on, asked + typed + more)
    assert len(incident.attempts) == 2
    assert incident.category == "none"
    assert told(over, asked + typed + "reading the options\n").category == "preemption"


_OWN = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\n'
_FULL = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 800.00 MiB\n"


def test_a_job_that_still_waits_hides_no_crash_of_the_one_before(tmp_path: Path) -> None:
    incident = told(tmp_path, _STEPS + _OWN + _FULL + "srun: job 1728 queued and waiting for resources\n")
    assert incident.category == "oom"
    assert len(incident.attempts) == 1


@pytest.mark.parametrize(
    "said",
    [
        "scancel: error: Kill job error on job id 6820: Job/step already completing or completed\n",
        "Health check failed: HTTPConnectionPool(host='localhost', port=8000): Max retries exceeded\n",
        "WARN [1:2] [[Health]] Detected a WARNING in health system Thermal: 'clocks are reduced'\n",
        "[ 100.1] i915 0000:00:02.0: [drm] GPU HANG: ecode 9:1:85dffffb, in Xorg [1234]\n",
    ],
    ids=["a job that is over", "a server that comes up", "a warning of DCGM", "the screen of a machine"],
)
def test_a_run_that_is_done_did_not_fail_of_a_word_beside_it(tmp_path: Path, said: str) -> None:
    (tmp_path / "other.log").write_text(said)
    assert told(tmp_path, _STEPS + "Training complete\n").category == "none"


def test_few_steps_of_many_that_are_left_out_are_nothing_even_the_last_one(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    skipped = "(trainer:663) WARNING: The grad norm is nan. Skipping updating the model.\n"
    made = "".join(f"step {step} loss 1.5\n" for step in range(1, 100))
    over = "(trainer:404) WARNING: The gradients at all steps are invalid in this epoch. Something seems wrong.\n"
    assert told(few, made + skipped).category == "none"
    assert told(many, made + skipped * 30).category == "numerical"
    assert told(many, made + over).category == "numerical"


@pytest.mark.parametrize(
    ("end", "category"),
    [
        (_OWN + _FULL, "oom"),
        (_OWN + "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 2x3)\n", "usercode"),
        (_CANCELLED, "preemption"),
        ("", "none"),
    ],
)
def test_a_bar_that_waits_for_the_first_step_shows_no_loss(tmp_path: Path, end: str, category: str) -> None:
    bar = "Epoch 0:   0%|          | 0/100 [00:00<?, ?it/s, loss=nan, v_num=1]\n"
    assert told(tmp_path, 3 * bar + end).category == category


def test_what_a_library_runs_of_the_program_is_no_print_of_its_own(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.12/site-packages/torch/multiprocessing/spawn.py", line 69, in _wrap\n    fn(i, *args)\n'
        '  File "/app/train.py", line 5, in worker\n    import flash_attn\n'
        "ModuleNotFoundError: No module named 'flash_attn'\n"
    )
    assert told(tmp_path, text + _CANCELLED).category == "environment"
