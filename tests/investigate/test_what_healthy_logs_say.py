"""Healthy logs: scores that are called errors, warnings with the lines that gave them, stages with losses of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    "line",
    [
        "Median Error: 1.7deg, 8.3cm",
        "/env/lib/python3.10/site-packages/vllm/__init__.py:5: RuntimeWarning: Failed to read commit hash:",
        "2021-03-02 14:43:45.705397: W tensorflow/stream_executor/cuda/cuda_driver.cc:326] failed call to cuInit: UNKNOWN ERROR (303)",
        "2025-07-01 03:02:55.404572: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:485] Unable to register cuFFT factory",
        '  warnings.warn("Could not define the global object. Error: please install it")',
    ],
)
def test_long_logs_of_such_lines_are_healthy(tmp_path: Path, line: str) -> None:
    text = "".join(f"{line}\nclass {at} done\n" for at in range(60))
    assert told(tmp_path, text).category == "none"


def test_an_error_that_is_no_score_leaves_it_open(tmp_path: Path) -> None:
    text = "".join(f"class {at} done\n" for at in range(60))
    assert told(tmp_path, text + "Error: the class is not known\n").category == "cannot-tell"


def test_a_few_lines_of_warnings_and_nothing_else(tmp_path: Path) -> None:
    warning = (
        "/env/lib/python3.8/site-packages/torch/optim/lr_scheduler.py:118: UserWarning: Detected call of `step()`\n"
    )
    lines = "".join(f"class {at} done\n" for at in range(6))
    assert told(tmp_path, warning + '  warnings.warn("Could not use `step()`. "\n' + lines).category == "none"


def test_a_shell_without_conda_before_a_long_log(tmp_path: Path) -> None:
    head = "CondaError: Run 'conda init' before 'conda deactivate'\n"
    assert told(tmp_path, head + "".join(f"sample {at} written\n" for at in range(80))).category == "none"


def test_a_shell_without_conda_and_nothing_else(tmp_path: Path) -> None:
    head = "CondaError: Run 'conda init' before 'conda activate'\n"
    assert told(tmp_path, head).category == "environment"


def test_a_second_stage_has_a_loss_of_its_own(tmp_path: Path) -> None:
    first = "".join(f"Pre-train Epoch {at}/50 | Loss: {0.04 + 0.2 / at:.6f}\n" for at in range(1, 26))
    second = "".join(
        f"Fine-tune Epoch {at}/50 | Loss: {0.69 - at / 9000:.6f} | Val Loss: 0.68\n" for at in range(26, 51)
    )
    assert told(tmp_path, first + second).category == "none"


def test_the_same_loss_that_rises_diverges(tmp_path: Path) -> None:
    first = "".join(f"Epoch {at}/50 | Loss: {0.04 + 0.2 / at:.6f}\n" for at in range(1, 26))
    second = "".join(f"Epoch {at}/50 | Loss: {0.69 - at / 9000:.6f}\n" for at in range(26, 51))
    assert told(tmp_path, first + second).category == "numerical"


def test_a_loss_that_falls_without_a_bottom(tmp_path: Path) -> None:
    text = "".join(f"Epoch {at} | Train Loss: {-13209.0 * at**3:.4f} | Val Acc: 0.00\n" for at in range(1, 51))
    incident = told(tmp_path, text)
    assert incident.category == "numerical"
    assert "without a bottom" in incident.headline


def test_a_likelihood_below_nought_is_none(tmp_path: Path) -> None:
    text = "".join(f"Epoch {at} | Train Loss: {-130.0 * at:.4f} | Val Acc: 0.50\n" for at in range(1, 51))
    assert told(tmp_path, text).category == "none"


def test_steps_behind_two_counters_in_brackets(tmp_path: Path) -> None:
    head = " [*] Failed to find a checkpoint\n"
    text = "".join(f"Epoch:[ 0/25] [ {at:3}/ 917] time: {at}.1576, d_loss: 2.49, g_loss: 0.35\n" for at in range(1, 80))
    assert told(tmp_path, head + text).category == "none"


def test_an_extension_for_images_that_does_not_load(tmp_path: Path) -> None:
    head = (
        "/env/lib/python3.8/site-packages/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension:"
        " /env/lib/python3.8/site-packages/torchvision/image.so: undefined symbol: _ZN5torch3jit17parse\n  warn(\n"
    )
    assert told(tmp_path, head + "".join(f"part {at} of 9 written\n" for at in range(9))).category == "none"


def test_choices_that_inductor_tries_and_leaves_out(tmp_path: Path) -> None:
    head = "E0102 03:04:05.678000 4242 torch/_inductor/select_algorithm.py:2100] [7/0] "
    tried = (
        f"{head}Runtime error during autotuning: \n"
        f"{head}No valid triton configs. OutOfResources: out of resource: shared memory, Required: 245760, "
        "Hardware limit: 232448. Reducing block sizes or `num_stages` may help.. \n"
        f"{head}Ignoring this choice.\n"
    )
    steps = "".join(f"step {step} loss {3 - step / 20:.3f}\n" for step in range(6))
    assert told(tmp_path, tried * 12 + steps).category == "none"


@pytest.mark.parametrize(
    "head",
    [
        "2026-02-11 09:00:00,000 INFO    MainThread:4711 [probe.py:",
        "2026-02-11 09:00:00 | DEBUG    | probe | ",
        "INFO:probe:",
        "[INFO] ",
    ],
)
@pytest.mark.parametrize("level", ["INFO", "ERROR"])
def test_what_a_logger_only_tells_by_the_way_is_no_failure_of_a_program_that_goes_on(
    tmp_path: Path, head: str, level: str
) -> None:
    head = head.replace("INFO", level).replace("DEBUG", level)
    line = f"{head}cannot look the notebook up: 'NoneType' object has no attribute 'get'\n"
    behind = "".join(f"setting {at} read\n" for at in range(60))
    assert (told(tmp_path, line + behind).category == "none") == (level == "INFO")
    assert told(tmp_path, behind + line).category not in ("none", "cannot-tell")


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: Expected input batch_size (32) to match target batch_size (16).",
        "No space left on device, giving up",
    ],
)
def test_what_a_logger_tells_as_information_may_be_what_a_program_ended_with(tmp_path: Path, said: str) -> None:
    behind = "".join(f"[INFO] removed temporary file {at}\n" for at in range(30))
    steps = "".join(f"step {step} loss {3 - step / 20:.3f}\n" for step in range(20))
    assert told(tmp_path, f"{steps}[INFO] {said}\n{behind}").category not in ("none", "cannot-tell")


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("EarlyStopping triggered, aborting training at epoch 12", "none"),
        ("The budget of 4 hours is used up, aborting training.", "none"),
        ("Validation loss converged. Training aborted.", "none"),
        ("Limit of failed batches reached, aborting training.", "other"),
        ("The solver has not converged. Training aborted.", "other"),
    ],
)
def test_a_training_that_is_given_up_for_a_reason(tmp_path: Path, line: str, category: str) -> None:
    steps = "".join(f"step {at} | loss: {5 - at / 50:.3f}\n" for at in range(1, 90))
    assert told(tmp_path, f"{steps}{line}\nbest weights kept\n").category == category
