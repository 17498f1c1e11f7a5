"""What ended nothing: trouble that a program went on behind, levels of loggers, what starts before the last one said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from preflight.catalog.signature_files import load_signatures
from preflight.investigate.diagnose import diagnose
from preflight.source.logs.read import read_logs
from preflight.vocabulary.incident import Incident

_WORK = "".join(f"item {number} is scored: {number}\n" for number in range(60))
_TROUBLE = "ERROR: Unable to locate a modulefile for 'conda'\n"


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (_TROUBLE + _WORK, "none"),
        (_WORK + _TROUBLE, "cannot-tell"),
        (_WORK + _TROUBLE + "bye\n" * 20, "cannot-tell"),
    ],
)
def test_a_program_that_goes_on_for_long_behind_trouble_is_well(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text).category == category


@pytest.mark.parametrize(("between", "category"), [(120, "none"), (3, "cannot-tell")])
def test_trouble_that_comes_again_and_again_was_caught(tmp_path: Path, between: int, category: str) -> None:
    text = "".join(
        f"Error with item {one}, confirm that it is there\n" + "a line of work\n" * between for one in range(12)
    )
    assert told(tmp_path, text + "Error with item 12, confirm that it is there\nall is saved\n").category == category


def test_trouble_that_is_all_that_a_program_says_was_not_caught(tmp_path: Path) -> None:
    head = "".join(f"line {one} of the settings\n" for one in range(30))
    assert told(tmp_path, head + "Error with the mesh, confirm that it is there\n" * 1200).category == "cannot-tell"


def test_trouble_of_a_start_before_is_none_of_the_last_one(tmp_path: Path) -> None:
    head = "name of the model: small\nrate of learning: 0.1\nseed of the run: 4\nkind of router: plain\n"
    raised = """\
Failed to run the summary of the model
Traceback (most recent call last):
  File "/job/train.py", line 3, in <module>
    main()
  File "/job/train.py", line 9, in main
    net(x)
TypeError: forward() got a value that it cannot take
"""
    incident = told(tmp_path, head + "a line of work\n" * 40 + raised + head + "device: cuda\nclasses: 8\n")
    assert (incident.category, len(incident.attempts)) == ("none", 2)


_TENSORFLOW = """\
WARNING:tensorflow:From train.py:25: cross_entropy (from ops) is deprecated and will be removed in a future version.
Instructions for updating:
See the other function.
2018-03-09 00:20:31.378484: I tensorflow/stream_executor/cuda/cuda_gpu_executor.cc:898] node read had negative value (-1), invalid
2018-03-09 00:20:31.378838: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1212] Found device 0 with properties:
name: Tesla K80 major: 3 minor: 7
totalMemory: 11.17GiB freeMemory: 11.10GiB
"""


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (_TENSORFLOW, "none"),
        (_TENSORFLOW + "the file is corrupt\n", "data"),
        (_TENSORFLOW + "WARNING:root:You must parse the settings before loading. Exiting.\n", "cannot-tell"),
        ("Warning: Failed to load part 'a'\n" + "the model has 3 layers\n" * 6, "none"),
        ("the model has 3 layers\n" * 6 + "Warning: Failed to load part 'a'\n", "cannot-tell"),
    ],
)
def test_the_level_of_a_logger_is_no_word_of_trouble(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text).category == category


def test_lines_of_a_short_text_are_counted_as_signatures_count_them(tmp_path: Path) -> None:
    bar = "\r".join(f"reading: {share}%|   | {share}/100" for share in range(0, 100, 5))
    harmless = (
        "[W reducer.cpp:1303] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any"
        " unused parameters in the forward pass.\n"
    )
    assert told(tmp_path, f"{bar}\none\ntwo\nthree\nfour\n{harmless}").category == "none"


def test_numbers_printed_behind_a_traceback_are_none_of_its_message(tmp_path: Path) -> None:
    raised = """\
Traceback (most recent call last):
  File "/job/train.py", line 3, in <module>
    loss = kl(a, b[best])
TypeError: only integer tensors of a single element can be converted to an index
checked: tensor(0.6935)
loss: tensor(nan)
"""
    assert told(tmp_path, raised).category == "usercode"


def test_a_port_that_a_program_does_without_ended_nothing(tmp_path: Path) -> None:
    text = """\
[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:40112 (errno: 98 - Address already in use).
[E socket.cpp:500] [c10d] The server socket has failed to bind to 0.0.0.0:40112 (errno: 98 - Address already in use).
INFO:root:distributed training not available, failed to bind to 0.0.0.0:40112 (errno: 98 - Address already in use).
INFO:root:Initialized (rank/world-size) 0/1
slurmstepd: error: *** JOB 2571 ON node01 CANCELLED AT 2024-07-09T14:29:46 ***
"""
    assert told(tmp_path, text).category == "preemption"


def test_the_exception_of_a_submitted_job_is_a_failure(tmp_path: Path) -> None:
    head = "submitit INFO (2022-07-15 00:27:33,147) - Starting with JobEnvironment(job_id=4, local_rank=1(8), global_rank=1(8))\n"
    text = head + "index created!\nStart training\n" + "layer 1 is set up\n" * 40
    last = "submitit ERROR (2022-07-15 00:28:26,125) - Submitted job triggered an exception\n"
    assert told(tmp_path, text + last).category == "other"


_STOPPED = """\
W1224 13:36:36.275000 140031080121344 torch/distributed/elastic/agent/server/api.py:688] Received 15 death signal, shutting down workers
Traceback (most recent call last):
  File "/env/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/env/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 62, in _terminate
    raise SignalException("Process got signal", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 2399613 got signal: 15
"""


@pytest.mark.parametrize(
    ("behind", "category"),
    [
        ("[INFO] Setting ds_accelerator to cuda (auto detect)\nstep 1 loss 2.0\nstep 2 loss 1.9\n", "none"),
        ("bye\n", "preemption"),
    ],
)
def test_what_is_set_up_behind_a_launcher_that_died_is_another_start(
    tmp_path: Path, behind: str, category: str
) -> None:
    assert told(tmp_path, "step 1 loss 2.0\n" + _STOPPED + behind).category == category


def test_the_last_trouble_of_a_kind_is_kept_of_the_file_in_which_the_fewest_lines_follow(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(_TROUBLE + "work\n" * 3 + _TROUBLE + "work\n" * 9)
    (tmp_path / "b.log").write_text("work\n" * 2 + _TROUBLE + "work\n" * 4)
    (unknown,) = read_logs([str(tmp_path)], load_signatures()).unknown
    assert (unknown.count, unknown.last, unknown.behind) == (3, (1, 3), 4)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("ValueError: Images in metadata should be arrays of numbers.", "data"),
        ("RuntimeError: each element in list of batch should be of equal size", "data"),
        ("TypeError: img should be PIL Image. Got <class 'list'>", "data"),
        ("ValueError: num_workers option should be non-negative", "data"),
        ("RuntimeError: Trying to resize storage that is not resizable", "data"),
        ("KeyError: 'image_path'", "data"),
        ("KeyError: \"['score'] not in index\"", "data"),
        ("KeyError: 'loss'", "usercode"),
        ("ValueError: Input image size (256*256) does not fit the model (224*224).", "usercode"),
        ("AssertionError: the saved state has no key of the dataloader", "usercode"),
        ("RuntimeError: number of samples and weights differ", "usercode"),
    ],
)
def test_an_exception_alone_is_about_samples_by_its_nouns(tmp_path: Path, line: str, category: str) -> None:
    assert told(tmp_path, f"Epoch 1 begins\n{line}\n").category == category


def test_the_nouns_of_samples_decide_nothing_where_frames_are_known(tmp_path: Path) -> None:
    raised = """\
Traceback (most recent call last):
  File "/job/train.py", line 3, in <module>
    net(x)
  File "/job/net.py", line 9, in forward
    raise ValueError("images have another number of channels than the network")
ValueError: images have another number of channels than the network
"""
    assert told(tmp_path, raised).category == "usercode"


_NOON = 1_699_963_200


def _steps(first: str, hours: int) -> str:
    hour = int(first[:2])
    return "".join(
        f"[{(hour + at // 60) % 24:02}:{at % 60:02}:07.091908] Epoch: [{at // 60}]  [{at % 60}/60]  loss: {2 - at / 1000:.4f}\n"
        for at in range(hours * 60)
    )


def test_times_without_a_date_pass_midnight_and_nothing_hangs(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_steps("21:00", 5))
    os.utime(log, (_NOON, _NOON))  # of that day all of the times are, as far as the lines tell
    incident = diagnose(log).incident
    assert incident is not None
    assert (incident.state, incident.category) == ("running", "none")


@pytest.mark.parametrize(("resumed", "category"), [(True, "none"), (False, "numerical")])
def test_a_loss_that_settles_after_a_checkpoint_was_loaded_does_not_diverge(
    tmp_path: Path, resumed: bool, category: str
) -> None:
    losses = [*(0.08 + 0.001 * (step % 3) for step in range(200)), *(0.13 + 0.001 * (step % 3) for step in range(400))]
    text = "".join(f"step {step} loss {loss:.4f}\n" for step, loss in enumerate(losses))
    assert told(tmp_path, ("Resuming from epoch 25\n" if resumed else "") + text).category == category


@pytest.mark.parametrize(
    ("line", "category"),
    [
        (
            "\x1b[36m(main_task pid=4)\x1b[0m Error reading parquet file /job/train.parquet: Nested data not implemented\n",
            "data",
        ),
        ("RNA pipeline failed: the samples were not clustered\n", "data"),
        ("Failed to set the clock of the card\n", "cannot-tell"),
        ("wandb: Failed to upload the samples of the run\n", "cannot-tell"),
    ],
)
def test_the_last_word_of_a_program_is_about_the_file_or_the_samples_that_it_names(
    tmp_path: Path, line: str, category: str
) -> None:
    assert told(tmp_path, _WORK + line).category == category
    assert told(tmp_path, line + _WORK).category == "none"


def test_processes_that_fail_alike_print_into_each_other(tmp_path: Path) -> None:
    raised = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/multiprocessing/queues.py", line 200, in put
    self._writer.send_bytes(obj)
  File "/env/lib/python3.11/multiprocessing/connection.py", line 384, in _send
    n = write(self._handle, buf)
BrokenPipeError: [Errno 32] Broken pipe
"""
    assert (
        told(tmp_path, "  n = write(self._handle, buf)\nBrokenPipeError: [Errno 32] Broken pipe\n" + raised).category
        == "other"
    )


@pytest.mark.parametrize(
    ("path", "category"), [("credit/datasets/normalize.py", "data"), ("credit/optimizers/adam.py", "usercode")]
)
def test_a_setting_that_the_code_of_the_data_lacks_is_about_the_data(tmp_path: Path, path: str, category: str) -> None:
    raised = f"""\
Traceback (most recent call last):
  File "/job/train.py", line 3, in <module>
    main()
  File "/job/{path}", line 25, in __init__
    names = conf["data"]["all_names"]
KeyError: 'all_names'
"""
    assert told(tmp_path, raised).category == category


@pytest.mark.parametrize(
    ("before", "name", "category"),
    [
        ("step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\nException ignored in: <function It.__del__ at 0x7f>\n", "AttributeError", "none"),
        ("step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n", "AttributeError", "usercode"),
        ("Exception ignored in: <function It.__del__ at 0x7f>\n", "AttributeError", "usercode"),
        ("step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n--- Logging error ---\n", "AttributeError", "none"),
        ("step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\nException ignored in: <module 'threading'>\n", "KeyboardInterrupt", "preemption"),
    ],
)  # fmt: skip
def test_what_python_ignores_ends_nothing(tmp_path: Path, before: str, name: str, category: str) -> None:
    said = f"{name}: 'It' object has no attribute 'status'" if name != "KeyboardInterrupt" else f"{name}:"
    raised = f'Traceback (most recent call last):\n  File "/job/it.py", line 8, in __del__\n    self.close()\n{said}\n'
    assert told(tmp_path, before + raised).category == category


_STEPS = "".join(f"[rank0]: step {step} loss 2.0\n[rank1]: step {step} loss 2.0\n" for step in range(1, 5))
_CLOSES = """\
Traceback (most recent call last):
  File "/job/it.py", line 8, in __del__
    self.close()
AttributeError: 'It' object has no attribute 'status'
"""


@pytest.mark.parametrize(
    "text",
    [
        "Exception ignored while calling deallocator <function It.__del__ at 0x7f>:\n" + _CLOSES,
        "Exception ignored in: <function It.__del__ at 0x7f>\n"
        + _CLOSES
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + _CLOSES.replace("AttributeError: 'It' object has no", "AttributeError: 'That' object has no"),
    ],
)
def test_all_of_what_python_ignores_ends_nothing(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, _STEPS + text).category == "none"


def test_what_python_ignores_of_one_rank_ended_another(tmp_path: Path) -> None:
    ignored = "[rank1]: Exception ignored in: <function It.__del__ at 0x7f>\n"
    raised = "".join(f"[rank0]: {line}\n" for line in _CLOSES.replace("__del__", "train").splitlines())
    assert told(tmp_path, _STEPS + ignored + raised).category == "usercode"


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("FATAL:   could not open image /home/me/torch.sif: failed to retrieve path for /home/me/torch.sif\n", "environment"),
        ("Error: docker could not start from the image lab:3\n", "cannot-tell"),
        ("Error: could not open image 17\n", "data"),
    ],
)  # fmt: skip
def test_the_image_of_a_container_is_no_sample(tmp_path: Path, last: str, category: str) -> None:
    assert told(tmp_path, "srun: job 12 has been allocated resources\n" + last).category == category


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("Done. Processed 997 images, Failed to read 3 images\n", "cannot-tell"),
        ("ERROR: failed to write captions for 2 samples, continuing\n", "cannot-tell"),
        ("ERROR: sort the samples before continuing\n", "data"),
        ("ERROR: the dataset was not completed\n", "data"),
    ],
)
def test_the_last_word_of_a_program_that_is_through_ended_nothing(tmp_path: Path, last: str, category: str) -> None:
    assert told(tmp_path, "Loading the model\nReading the folder\n" + last).category == category


def test_the_last_word_behind_results_that_were_saved_decides_nothing(tmp_path: Path) -> None:
    last = "Failed to draw the samples of the run\n"
    assert told(tmp_path, _WORK + last).category == "data"
    assert told(tmp_path, _WORK + "result file saved to /job/result/best.json\n" + last).category == "cannot-tell"


_RAISES = """\
Traceback (most recent call last):
  File "/job/train.py", line 9, in main
    assert given.resume is not None
AssertionError
"""


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (_RAISES + "/spool/job_script: line 32: run7: command not found\n", "usercode"),
        ("/spool/job_script: line 3: run7: command not found\n" + _RAISES, "usercode"),
        ("/bin/sh: 1: run7: not found\n" + _RAISES, "environment"),
        ("/bin/sh: line 1: run7: command not found\n" + _RAISES, "environment"),
        ("/spool/job_script: line 3: run7: command not found\n" + _RAISES.rstrip() + ": run7 failed\n", "environment"),
        ("/spool/job_script: line 3: run7: command not found\n", "environment"),
        ("/home/me/.bashrc: line 3: run7: command not found\n" + _WORK, "none"),
    ],
)
def test_a_shell_goes_on_behind_a_command_that_it_does_not_find(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text).category == category
