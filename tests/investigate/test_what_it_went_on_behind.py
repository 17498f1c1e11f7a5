"""What ended nothing, or only followed: warnings, what a program does without, exceptions of a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.cause.exceptions import meaning_of_line
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_OLD = (
    "/env/lib/python3.12/site-packages/torch/cuda/__init__.py:141: UserWarning: CUDA initialization: The NVIDIA driver on your"
    " system is too old (found version 11040). Please update your GPU driver\n"
)
_SHAPES = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss = net(x)
  File "net.py", line 30, in forward
    return a + b
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1
"""


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def test_a_warning_is_no_cause_of_what_came_later(tmp_path: Path) -> None:
    assert told(tmp_path, _OLD + "cpu\n" + _SHAPES).category == "usercode"


def test_a_warning_counts_where_nothing_else_failed(tmp_path: Path) -> None:
    assert told(tmp_path, _OLD).category == "environment"


@pytest.mark.parametrize(
    "line",
    [
        "Warning: Failed to load part 'a'. Error: [Errno 2] No such file or directory: '/data/a.parquet'",
        "ERROR: cannot reach the store, connection refused; retrying in 5 s",
        "Error: image file is truncated, skipping it",
    ],
)
def test_a_program_says_that_it_goes_on(line: str) -> None:
    assert meaning_of_line(line) is None


def test_memory_that_ran_out_is_the_cause_of_what_was_raised_meanwhile(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "/env/torch/serialization.py", line 499, in _save
    zip_file.write_record(name, storage.data_ptr(), num_bytes)
MemoryError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/env/torch/serialization.py", line 259, in __exit__
    self.file_like.write_end_of_file()
RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 6057217600 vs 6057217496
""")  # fmt: skip
    assert incident.category == "oom"


def test_the_last_exception_that_is_named_tells_where_the_chain_is_cut_off(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/triton/backends/nvidia/compiler.py", line 468, in make_cubin
    subprocess.run(ptxas_cmd, check=True)
subprocess.CalledProcessError: Command '['/env/triton/bin/ptxas', '-v', '--gpu-name=sm_110a']' returned non-zero exit status 255.

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3.12/multiprocessing/process.py", line 108, in run
    self._target(*self._args)
""")  # fmt: skip
    assert incident.category == "compile"


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("self.resume(path)", "checkpoint"),
        ("batch = self.collate_fn(samples)", "data"),
        ("self.run_step(batch)", "other"),
    ],
)
def test_the_last_line_of_a_traceback_that_is_cut_off_tells_where_it_went_on(
    tmp_path: Path, code: str, category: str
) -> None:
    text = f'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    {code}\n'
    assert told(tmp_path, text).category == category


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("ValueError: require 2 GPUs, but only 1 GPUs available", "environment"),
        ("E1224 22:35:53.165575   26868 continuator.cc:1331] *** Halt is unexpected. This is likely an XLA compiler bug", "compile"),
        ("2021-07-03 05:37:33.144628: F external/xla/init_fns.inc:110] Tpu_Read not available in this library.", "environment"),
        ("[ 1358.9] amdgpu 0000:83:00.0: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "hardware"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0", "hardware"),
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to compile: ptxas exited with non-zero error code 65280", "compile"),
        ("jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: failed to reach the coordinator", "network"),
        ("tensorflow.python.framework.errors_impl.DataLossError: DATA_LOSS: record 4", "data"),
        ("torch._C._LinAlgError: linalg.cholesky: the input is not positive-definite", "numerical"),
        ("NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.", "environment"),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified", "environment"),
        ("TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'", "environment"),
        ("TypeError: draw() got an unexpected keyword argument 'size'", "usercode"),
        ("KeyError: 'optimizer_state_dict'", "checkpoint"),
        ("KeyError: 'size'", "usercode"),
        ("AssertionError: zero_pp_rank_0_mp_rank_00_model_states.pt not found", "checkpoint"),
        ("OSError: Error no file named model.safetensors found in directory ./output/checkpoint-500.", "checkpoint"),
        ("OSError: llama-7b is not a local folder and is not a valid model identifier", "environment"),
        ("AttributeError: 'DistributedDataParallel' object has no attribute 'generate'", "usercode"),
        ("AttributeError: module 'torch' has no attribute 'float8_e4m3fn'", "environment"),
        ("KeyboardInterrupt", "preemption"),
        ("User interrupted training", "preemption"),
        ("Terminated", "preemption"),
        (" 14%|###   | 2/14 [00:00<00:05,  2.39it/s]Killed", "oom"),
        ("Process finished with exit code 134 (interrupted by signal 6: SIGABRT)", "other"),
        ("double free or corruption (out)", "other"),
    ],
)  # fmt: skip
def test_one_line_tells(tmp_path: Path, line: str, category: str) -> None:
    assert told(tmp_path, line + "\n").category == category


@pytest.mark.parametrize(
    "line",
    [
        "[ 76914.1] amdgpu 0000:9d:00.0: {1}socket: 6, 1533 new correctable hardware errors detected in xgmi_wafl block",
        "[ 76914.1] amdgpu 0000:9d:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)",
    ],
)
def test_what_a_card_mends_itself_is_no_fault(tmp_path: Path, line: str) -> None:
    assert told(tmp_path, line + "\n").category != "hardware"


def test_what_a_process_raises_as_it_stops_follows_from_what_stopped_it(tmp_path: Path) -> None:
    incident = told(
        tmp_path,
        """\
Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/engine/worker.py", line 180, in init_device
    raise ValueError(
ValueError: Free memory on device (16.01/93.0 GiB) on startup is less than desired memory utilization (0.8, 74.4 GiB).
Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/engine/worker.py", line 528, in shutdown
    self.runner.close_transfers()
AttributeError: 'NoneType' object has no attribute 'close_transfers'
""",
    )
    assert incident.category == "oom"


def test_a_function_that_stops_something_may_fail_by_itself(tmp_path: Path) -> None:
    incident = told(
        tmp_path,
        """\
Traceback (most recent call last):
  File "train.py", line 28, in <module>
    shutdown()
  File "train.py", line 8, in shutdown
    self.runner.close_transfers()
AttributeError: 'NoneType' object has no attribute 'close_transfers'
""",
    )
    assert incident.category == "usercode"


def steps(first: int, last: int) -> str:
    return "".join(f"step {number} loss {3.0 - number / 1000:.4f}\n" for number in range(first, last))


def test_a_warning_behind_which_a_run_went_on_ends_it_no_second_time(tmp_path: Path) -> None:
    warning = "/env/lib/python3.12/site-packages/PIL/TiffImagePlugin.py:900: UserWarning: Truncated File Read\n"
    assert told(tmp_path, steps(0, 30) + warning + steps(30, 60) + warning).category == "none"


def test_a_bar_at_zero_is_no_further_start(tmp_path: Path) -> None:
    script = '  File "train.py", line 9, in <module>\n    fetch(url)\n'
    refused = f"Traceback (most recent call last):\n{script}urllib.error.HTTPError: HTTP Error 403: Forbidden\n"
    incident = told(tmp_path, f"0it [00:00, ?it/s]\n{refused}\n0it [00:00, ?it/s]\n\n0it [00:00, ?it/s]\n")
    assert incident.state == "crashed"
    assert incident.category != "none"


_MODULE = 'Lmod has detected the following error: The following module(s) are unknown: "cuda/12.1"\n'
_CANCELLED = "[2026-03-17T20:29:32.229] error: *** JOB 824185 ON gpu2255 CANCELLED AT 2026-03-17T20:29:32 DUE to SIGNAL Terminated ***\n"


def test_a_job_that_is_there_to_be_ended_outlived_what_its_shell_complained_of(tmp_path: Path) -> None:
    assert told(tmp_path, f"{_MODULE}\nStarting\n{_CANCELLED}").category == "preemption"


def test_what_a_shell_complains_of_counts_where_a_script_raised(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    import torch\n'
    missing = "ModuleNotFoundError: No module named 'torch'\n"
    assert told(tmp_path, f"{_MODULE}{raised}{missing}{_CANCELLED}").category == "environment"


_LINES = "".join(f"torch.Size([{count}, 6, 6])\n" for count in range(16, 40))
_CARDS = "2025-05-07 23:05:53,945 - bitsandbytes.cextension - WARNING - The installed version of bitsandbytes was compiled without GPU support. 8-bit optimizers, 8-bit multiplication, and GPU quantization are unavailable.\n"
_USAGE = "usage: main.py [-h] [--lr LR]\nmain.py: error: unrecognized arguments: --optimizer adam\n"


def test_a_program_that_goes_on_for_long_behind_a_warning_did_not_fail(tmp_path: Path) -> None:
    assert told(tmp_path, _OLD + "cpu\n" + _LINES).category in ("none", "cannot-tell")


def test_a_warning_beside_trouble_that_nobody_knows_still_counts(tmp_path: Path) -> None:
    assert told(tmp_path, _OLD + _LINES + "ERROR: something that nobody knows went wrong\n").category == "environment"


def test_what_is_missing_is_missed_by_nobody_where_work_is_done_long_behind_it(tmp_path: Path) -> None:
    saved = "2025-05-07 23:17:23,690 - __main__ - INFO - Saved checkpoint to out/epoch-1\n"
    assert told(tmp_path, _CARDS + _LINES * 3 + saved).category == "none"


def test_a_start_that_did_not_take_its_options_is_outlived_by_a_long_one(tmp_path: Path) -> None:
    added = "".join(f"Added record {number} to the set\n" for number in range(250))
    assert told(tmp_path, _USAGE + added).category in ("none", "cannot-tell")
    assert told(tmp_path, _USAGE + "done\n" * 5).category == "usercode"
    ranks = "usage: main.py [-h]\n" + "               [--lr LR]\n" * 300 + _USAGE
    assert told(tmp_path, _USAGE + ranks).category == "usercode"


def test_tensorflow_looks_for_cards_and_computes_without(tmp_path: Path) -> None:
    looked = "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
    assert told(tmp_path, looked + _LINES).category in ("none", "cannot-tell")
    assert told(tmp_path, "RuntimeError: CUDA error: no CUDA-capable device is detected\n").category == "environment"


def test_backends_that_jax_tries_are_told_for_information(tmp_path: Path) -> None:
    tried = "03:14:41.011 [I] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory (394891:xla_bridge.py:925)\n"
    assert told(tmp_path, tried + _LINES).category in ("none", "cannot-tell")


def test_a_download_that_is_resumed_is_only_warned_of(tmp_path: Path) -> None:
    text = (
        "2025-09-16 18:35:13,550 - huggingface_hub.file_download - WARNING - Error while downloading from https://hub.test/a: timed out\n"
        "Trying to resume download...\n2025-09-16 18:47:00,100 - __main__ - INFO - Finetuning completed successfully!\n"
    )
    assert told(tmp_path, text).category in ("none", "cannot-tell")


def test_a_pipeline_that_says_that_it_failed_is_not_taken_for_one_that_is_well(tmp_path: Path) -> None:
    steps = "".join(f"Completed {count} / 90 iteration(s).\n" for count in range(1, 60))
    assert told(tmp_path, steps + "RNA pipeline failed: Cell types are needed first.\n").category == "cannot-tell"
    assert told(tmp_path, steps + "12 done, run failed: 0\n").category == "none"


def test_bars_that_are_drawn_anew_show_another_start(tmp_path: Path) -> None:
    def bars(last: int) -> str:
        return "".join(f"Epochs:  9%|█         | {step}/300 [09:18<35:25,  8.97s/it]\n" * 2 for step in range(last))

    assert told(tmp_path, bars(40) + _SHAPES + bars(9)).category == "none"


def test_somebody_stopped_it_where_lightning_says_so_in_a_warning(tmp_path: Path) -> None:
    text = (
        "/env/pytorch_lightning/trainer/call.py:54: UserWarning: Detected KeyboardInterrupt, attempting graceful shutdown...\n"
        '  rank_zero_warn("Detected KeyboardInterrupt, attempting graceful shutdown...")\n'
    )
    assert told(tmp_path, _LINES * 2 + text).category == "preemption"
    summary = "".join(f"wandb:   loss/part_{number} 0.5\n" for number in range(20))
    assert told(tmp_path, _LINES * 2 + text + summary).category == "preemption"


_HEAD = "Using seed: 43\nUsing device: cuda\nbatch_size : 32\nNumber of classes: 8\nModel: MobileNetV3-Small\n"


def test_a_head_that_is_told_again_behind_an_exception_is_another_start(tmp_path: Path) -> None:
    died = _SHAPES.replace("loss = net(x)", "main()").replace("line 9, in <module>", "line 99, in <module>")
    assert told(tmp_path, _HEAD + died + _HEAD.replace("43", "44")).category in ("none", "cannot-tell")


def test_a_start_between_may_be_the_last_that_told_a_line_of_the_head(tmp_path: Path) -> None:
    died = _SHAPES.replace("loss = net(x)", "main()").replace("line 9, in <module>", "line 99, in <module>")
    head = _HEAD + "Rate of learning: 0.1\n"
    between = head + "waits for work\n" * 300
    told_later = "Using device: cuda\n"
    assert told(tmp_path, head + died + between + head.replace("32", "64")).category in ("none", "cannot-tell")
    last = head.replace(told_later, "") + told_later
    assert told(tmp_path, head + died + last).category in ("none", "cannot-tell")


def test_output_that_waited_in_a_buffer_is_no_other_start(tmp_path: Path) -> None:
    assert told(tmp_path, _SHAPES + _HEAD + "Epoch one\nEpoch two\n").category == "usercode"
    assert told(tmp_path, _HEAD + _SHAPES + "Saving nothing: True\n").category == "usercode"


def test_settings_that_are_printed_as_a_whole_tell_of_no_trouble(tmp_path: Path) -> None:
    settings = "config: {'run_name': 'first', 'on_error': 'abort', 'stop_if_checkpoint_lost': True, 'timeout': 30}\n"
    assert told(tmp_path, "starting backend\n" + settings + "starting run threads\n" * 6).category in (
        "none",
        "cannot-tell",
    )
    assert told(tmp_path, "error in the config: cannot find the checkpoint\n").category == "checkpoint"


@pytest.mark.parametrize(("steps", "state"), [(0, "crashed"), (2, "running")])
def test_a_checkpoint_that_is_saved_as_a_program_gives_up_is_no_work(tmp_path: Path, steps: int, state: str) -> None:
    missing = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    import fused
ModuleNotFoundError: No module named 'fused'
"""
    behind = "".join(f"step {i} loss 2.0\n" for i in range(3, 3 + steps))
    waited = "".join(f"waiting for writer {i}\n" for i in range(60))
    begin = "step 1 loss 2.0\nstep 2 loss 2.0\n"
    told_of = told(tmp_path, begin + missing + behind + waited + "Saved checkpoint to /out/emergency.pt\n")
    assert told_of.state == state


_TOLD_TO_STOP = """\
[16:21:34] WARNING  Received 1 death signal, shutting down workers    api.py:729
           WARNING  Sending process 2928786 closing signal SIGHUP     api.py:698
           WARNING  Sending process 2928787 closing signal SIGHUP     api.py:698
           WARNING  Sending process 2928788 closing signal SIGHUP     api.py:698
           WARNING  Sending process 2928789 closing signal SIGHUP     api.py:698
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /env/bin/accelerate:8 in <module>                                            │
│                                                                              │
│ ❱ 8 │   sys.exit(main())                                                     │
"""


def test_an_agent_that_was_told_to_stop_warns_of_it(tmp_path: Path) -> None:
    assert told(tmp_path, _TOLD_TO_STOP).category == "preemption"


_SCALE = """\
  4%|4         | 15/387 [04:47<1:58:40, 19.14s/it]
  4%|4         | 16/387 [05:06<1:58:11, 19.11s/it]
  4%|4         | 17/387 [05:25<1:57:56, 19.13s/it]
Traceback (most recent call last):
  File "train.py", line 14, in <module>
    main()
  File "/env/lib/python3.8/site-packages/deepspeed/runtime/fp16/loss_scaler.py", line 175, in update_scale
    raise Exception(
Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.
  5%|4         | 18/387 [05:25<1:57:56, 19.13s/it]
"""


def test_a_bar_drawn_once_more_is_no_step_behind_an_exception(tmp_path: Path) -> None:
    assert told(tmp_path, _SCALE).category == "numerical"
