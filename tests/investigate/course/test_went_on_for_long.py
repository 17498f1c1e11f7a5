"""What a program went on behind for long, and bars and words that stand behind what ended it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_EPISODES = "".join(f"episode {number} reward {number * 3}.5\n" for number in range(60))
_SAID = "".join(
    f"2024-03-11 10:{at // 60:02}:{at % 60:02},120 - fit - INFO - client {at} sent its part\n" for at in range(400)
)
_STEPS = "".join(f"Epoch: [0][{step}/90]  loss {2.0 - step / 100:.4f}\n" for step in range(10, 60, 10))


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    return diagnose(folder).incident


def raised(error: str, *frames: tuple[str, str]) -> str:
    shown = "".join(f'  File "{path}", line 9, in {function}\n    act()\n' for path, function in frames)
    return f"Traceback (most recent call last):\n{shown}{error}\n"


def test_a_program_that_cannot_use_its_cards_may_do_without(tmp_path: Path) -> None:
    warning = (
        "/env/lib/python3.9/site-packages/torch/cuda/__init__.py:52: UserWarning: CUDA initialization: CUDA unknown error - this"
        " may be due to an incorrectly set up environment. Setting the available devices to be zero.\n"
        "  return torch._C._cuda_getDeviceCount() > 0\n"
    )
    assert told(tmp_path, warning + _EPISODES).category == "none"
    assert told(tmp_path, warning).category != "none"


_INDEX = "IndexError: list index out of range"


def test_a_program_printed_what_it_caught_and_went_on_for_long(tmp_path: Path) -> None:
    caught = raised(_INDEX, ("/home/me/utils/config.py", "read_config"))
    assert told(tmp_path, "reading fit.cfg\n" + caught + _SAID).category == "none"
    assert told(tmp_path, _SAID + caught + _SAID[:400]).category != "none"


@pytest.mark.parametrize("lib", ["/usr/lib/python3.9/", "C:\\Python39\\lib\\", "D:\\conda\\envs\\fit\\Lib\\"])
def test_what_a_process_of_its_own_did_not_catch_ended_it(tmp_path: Path, lib: str) -> None:
    ended = raised(_INDEX, (f"{lib}multiprocessing/process.py".replace("/", lib[-1]), "_bootstrap"), ("fit.py", "work"))
    assert told(tmp_path, "reading fit.cfg\n" + ended + _SAID).category != "none"


def test_what_hydra_prints_from_its_task_on_ended_the_program(tmp_path: Path) -> None:
    task = raised(_INDEX, ("/home/me/fit.py", "main"), ("/home/me/utils/config.py", "read_config"))
    text = "Error executing job with overrides: ['seed=1']\n" + task + _SAID
    assert told(tmp_path, text).category != "none"


def test_what_went_through_a_whole_script_ended_it(tmp_path: Path) -> None:
    ended = raised(_INDEX, ("/home/me/fit.py", "<module>"), ("/home/me/utils/config.py", "read_config"))
    assert told(tmp_path, "reading fit.cfg\n" + ended + _SAID).category != "none"


def test_what_a_program_catches_before_it_fails_is_not_its_end(tmp_path: Path) -> None:
    caught = raised(_INDEX, ("/home/me/utils/config.py", "read_config"))
    text = caught + _SAID + raised("KeyError: 'width'", ("/home/me/fit.py", "<module>"))
    assert told(tmp_path, text).category == "usercode"


def test_bars_of_epochs_and_batches_are_each_drawn_once_more(tmp_path: Path) -> None:
    epochs = "epoch:  10%|#   | 2/20 [22:41<3:24:13, 680.75s/it]\n"
    batches = "".join(f"batch:  {at // 5}%|#   | {at}/445 [04:18<04:01,  1.12s/it]\n" for at in (228, 229, 230))
    ended = raised("RuntimeError: CUDA out of memory. Tried to allocate 646.00 MiB", ("train.py", "<module>"))
    assert told(tmp_path, epochs + batches + ended + epochs + batches.splitlines()[-1]).category == "oom"


_PARTLY = """\
2024-10-16 11:05:11,506 - mmdet - WARNING - The model and loaded state dict do not match exactly

size mismatch for head.fc.weight: copying a param with shape torch.Size([81, 1024]) from checkpoint, the shape in current model is torch.Size([11, 1024]).
"""


def test_a_checkpoint_that_fits_in_part_is_loaded_all_the_same(tmp_path: Path) -> None:
    stopped = raised("KeyboardInterrupt", ("tools/train.py", "<module>"))
    assert told(tmp_path, _PARTLY + _STEPS.splitlines()[0] + "\n" + stopped).category == "preemption"
    assert told(tmp_path, _PARTLY).category == "checkpoint"


def test_the_last_word_of_a_logger_is_an_error_and_no_step_stands_behind_it(tmp_path: Path) -> None:
    last = "[2025-10-31 05:07:11,062][__main__][ERROR] - Error executing job with overrides: ['machine=hpc']\n"
    assert told(tmp_path, _STEPS + last).category == "other"
    assert told(tmp_path, _STEPS + last + _STEPS.replace("[0]", "[1]")).category == "none"


@pytest.mark.parametrize("folder", ["/runner/_work/training/venv", "/opt/CUDA_HOME"])
def test_native_frames_say_where_and_not_what(tmp_path: Path, folder: str) -> None:
    text = (
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with exception: [Rank 3]"
        " Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
        " Timeout(ms)=1) ran for 90 milliseconds\n"
        f"frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f83f296c1b6 in {folder}/libc10.so)\n"
    )
    assert told(tmp_path, text).category == "network"


def test_a_pipe_between_two_processes_is_no_network(tmp_path: Path) -> None:
    frames = (
        ("/env/lib/python3.7/multiprocessing/resource_sharer.py", "_serve"),
        ("/env/lib/python3.7/multiprocessing/connection.py", "_recv"),
    )
    assert (
        told(tmp_path, raised("ConnectionResetError: [Errno 104] Connection reset by peer", *frames)).category
        == "other"
    )


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("runs/00005-dataset-cond/network-snapshot-004240.pkl", "checkpoint"),
        ("out/model_weights_12.h5", "checkpoint"),
        ("/data/annotations_12.pkl", "data"),
        ("/data/class_weights.pkl", "data"),
    ],
)
def test_the_name_of_a_pickle_tells_what_it_holds(tmp_path: Path, path: str, category: str) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    assert told(tmp_path, raised(error, ("train.py", "<module>"))).category == category


_BATCHES = "".join(
    f"Epoch: [{at // 9}][{at % 9 * 10}/90]  loss {3.0 - at / 200:.4f}  took 0.{at % 9}1 s\n" for at in range(500)
)
_UNCAUGHT = raised(_INDEX, ("train.py", "<module>"), ("net.py", "forward"))
_SAVES = "".join(
    f"the images so far are in out/{at:05}\n" * 9 + f"saving the model at the end of epoch {at}, iters {at}00\n"
    for at in range(90)
)


@pytest.mark.parametrize(
    ("text", "well"),
    [
        (_UNCAUGHT + _BATCHES, True),  # much more than a program keeps back until it ends
        (_UNCAUGHT + _SAVES, True),
        (_BATCHES[:9000] + _UNCAUGHT + _SAVES, True),
        (_UNCAUGHT + _SAVES[:6000], False),
        (_BATCHES + _UNCAUGHT + "the weights that were tried:\n" * 900, False),
        (_UNCAUGHT + _BATCHES + _UNCAUGHT, False),
    ],
)
def test_what_nobody_caught_ended_a_start_and_not_the_next_one(tmp_path: Path, text: str, well: bool) -> None:
    assert (told(tmp_path, text).category == "none") is well


def test_another_rank_may_be_the_one_that_goes_on(tmp_path: Path) -> None:
    behind = "".join(f"[rank{at % 2}]: {line}\n" for at, line in enumerate(_SAVES.splitlines()))
    assert told(tmp_path, f"[rank0]: begins\n{_UNCAUGHT}{behind}").category != "none"


_LIBRARY = (
    "LOADER: failed to open ast: /usr/lib/dri/ast_dri.so: cannot open shared object file: No such file or directory\n"
)
_CHUNKS = "".join(f"chunk {at}: -{at % 40}.5\n" for at in range(300))


def test_what_one_line_of_a_library_lacks_at_the_head_ended_nothing_that_goes_on_for_long(tmp_path: Path) -> None:
    assert told(tmp_path, _LIBRARY + _CHUNKS).category == "none"
    assert told(tmp_path, _LIBRARY + _CHUNKS[:600]).category != "none"
    assert told(tmp_path, _LIBRARY + _CHUNKS + _UNCAUGHT).category != "none"
