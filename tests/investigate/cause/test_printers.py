"""Lines of trouble that name no exception: what prints them says what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.cause.exceptions import meaning_of_line
from preflight.investigate.cause.printers import printed_by
from preflight.investigate.diagnose import diagnose


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("csrc/rotate.cu(41): error: no instance of function template matches", "compile"),
        ("lib/codegen/pass.cc:55:39: error: cannot convert 'llvm::ModulePass*' to 'llvm::Pass*'", "compile"),
        ("ninja: build stopped: subcommand failed.", "compile"),
        ("nvcc fatal   : Failed to preprocess host compiler properties.", "environment"),
        ("rotate.cpp:3:10: fatal error: Python.h: No such file or directory", "environment"),
        ("[  84.3] NVRM: GPU6 kbusSendSysmembar: timeout error waiting for startToken = 0x3", "hardware"),
        ("[ 510.6] amdgpu 0000:67:00.0: GPU reset begin!", "hardware"),
        ("HDF5-DIAG: Error detected in HDF5 (1.10.5) thread 0:", "data"),
        ("[rank3]:[E624 04:14:29.2 ProcessGroupNCCL.cpp:9999] [Rank 3] a sentence of a version to come", "network"),
        ("Exception raised from waitAll at ../torch/csrc/distributed/c10d/TCPStore.cpp:1 (most recent call first):", "network"),
        ("train.py: error: unrecognized arguments: --step", "environment"),
        ("sbatch: fatal: the script is too large", "environment"),
        ("[1772446424.12] [n12:4021 :0]  ib_iface.c:1331 UCX  ERROR ibv_create_ah(dlid=12) failed: no route", "network"),
        ("[1772446424.12] [n12:4021 :0]  ib_md.c:309 UCX  ERROR failed to register memory", "environment"),
        ("n12:4021:4210 [3] os/linux.cc:99 NCCL WARN Failed to open libnvidia-ml.so.1", "environment"),
    ],
)  # fmt: skip
def test_the_form_of_a_line_tells_who_printed_it(line: str, category: str) -> None:
    told = printed_by(line)
    assert told is not None
    assert told[0] == category


@pytest.mark.parametrize(
    "line",
    [
        "the loss of csrc/rotate.cu is an error of the mean",
        "[rank3]:[W624 04:14:29.2 ProcessGroupNCCL.cpp:4561] using GPU 3 to perform barrier",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  595.71",
        "ninja: no work to do.",
    ],
)
def test_what_is_no_trouble_is_no_printer_s(line: str) -> None:
    assert printed_by(line) is None


def test_an_exception_may_stand_in_a_line_as_it_is_shown() -> None:
    shown = meaning_of_line("AttributeError(\"'NoneType' object has no attribute 'values'\")")
    assert shown is not None
    assert shown.category == "usercode"
    assert meaning_of_line("Error executing job with overrides: ['checkpoint=last']") is None


def test_a_bar_that_is_drawn_once_more_as_a_program_ends_is_no_further_start(tmp_path: Path) -> None:
    bar = "Epoch 7: {:3d}%|#         | {}/6 [00:0{}<00:06,  1.0it/s, loss=0.698]"
    log = [bar.format(16 * at, at, at) for at in range(5)]
    log += [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    fit()",
        "MemoryError",
        bar.format(0, 0, 0),
    ]
    (tmp_path / "log.txt").write_text("\n".join(log) + "\n")
    incident = diagnose(str(tmp_path)).incident
    assert incident is not None
    assert (incident.category, len(incident.attempts)) == ("oom", 1)


@pytest.mark.parametrize(("second", "category"), [("29", "other"), ("02", "oom")])
def test_what_a_launcher_kills_when_it_has_waited_was_not_killed_by_the_system(
    tmp_path: Path, second: str, category: str
) -> None:
    entry = "[{}]:\n  time      : 2026-09-07_13:03:{}\n  host      : a\n  rank      : {} (local_rank: {})\n  exitcode  : {} (pid: 7)\n  error_file: <N/A>\n  traceback : {}\n"  # fmt: skip
    to_see = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    told = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        entry.format(1, "01", 3, 3, 1, to_see)
        + entry.format(2, second, 0, 0, -9, "Signal 9 (SIGKILL) received by PID 7"),
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        entry.format(0, "01", 1, 1, 1, to_see),
    ]
    (tmp_path / "log.txt").write_text("\n".join(told))
    incident = diagnose(str(tmp_path)).incident
    assert incident is not None
    assert incident.category == category


def test_the_first_line_of_a_file_has_no_break_before_it(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("error: command '/usr/local/cuda/bin/nvcc' failed with exit status 2\n")
    incident = diagnose(str(tmp_path)).incident
    assert incident is not None
    assert incident.category == "compile"


def test_no_space_for_what_processes_share_is_no_checkpoint_s(tmp_path: Path) -> None:
    log = [
        "Traceback (most recent call last):",
        '  File "tools/train.py", line 114, in <module>',
        "    for batch in batches:",
        '  File "/env/lib/python3.11/site-packages/engine/reader.py", line 515, in _init_workers',
        "    self._queue = multiprocessing.Queue()",
        '  File "/usr/lib/python3.11/multiprocessing/context.py", line 102, in Queue',
        "    return Queue(maxsize, ctx=self.get_context())",
        "OSError: [Errno 28] No space left on device",
    ]
    (tmp_path / "log.txt").write_text("\n".join(log) + "\n")
    incident = diagnose(str(tmp_path)).incident
    assert incident is not None
    assert incident.category == "data"


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("2026-03-02 10:13:44,120 - datasets.packaged_modules.json.json - ERROR - Failed to convert a table", "data"),
        ("ERROR:orbax.checkpoint.async_checkpointer:background thread ended", "checkpoint"),
        ("2026-03-02 10:13:44,120 - mylab.models.gate - ERROR - something broke", None),
        ("2026-03-02 10:13:44,120 - datasets.packaged_modules.json.json - INFO - read a table", None),
    ],
)
def test_a_logger_bears_the_name_of_its_module(line: str, category: str | None) -> None:
    told = meaning_of_line(line)
    assert (told.category if told is not None else None) == category


def test_a_command_of_slurm_that_gives_up_is_read(tmp_path: Path) -> None:
    log = tmp_path / "job.out"
    log.write_text(
        "begin\nsbatch: fatal: SLURM_TRES_PER_TASK is mutually exclusive with --ntasks-per-gpu\n", encoding="utf-8"
    )
    assert diagnose([str(log)]).incident.category == "environment"


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: Setting TMPDIR to /tmp",
        "slurmstepd: error: couldn't chdir to `/data/x': No such file or directory: going to /tmp instead",
        "slurmstepd: error: common_file_write_content: unable to write 1 bytes to cgroup /sys/fs/cgroup/memory/x: Device or resource busy",
        "srun: error: eio_message_socket_accept: slurm_receive_msg[10.0.0.1]: Zero Bytes were transmitted or received",
        "ERROR: environment variable TRACKER_KEY is not set, logging offline",
        "2026-03-02 10:13:44,120 - huggingface_hub.utils - ERROR - the token is not stored",
    ],
)
def test_a_run_that_is_done_did_not_fail_of_a_line_that_only_sounds_of_trouble(tmp_path: Path, line: str) -> None:
    steps = [f"step {i} loss {3 / (1 + i / 100):.3f}" for i in range(60)]
    log = tmp_path / "job.out"
    log.write_text("\n".join([*steps, "Training complete.", "Results saved to out/metrics.json", line]) + "\n")
    incident = diagnose([str(log)]).incident
    assert (incident.state, incident.category) == ("ended", "none")


@pytest.mark.parametrize("line", [
    "slurmstepd: error: Setting TMPDIR to /tmp",
    "slurmstepd: error: couldn't chdir to `/data/x': No such file or directory: going to /tmp instead",
])  # fmt: skip
def test_what_slurm_does_without_is_no_cause(line: str) -> None:
    assert meaning_of_line(line) is None
