"""What is concluded where a log tells little: only how a process ended, one rank of many, one line that names several."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

TORCHRUN = """\
W1214 08:06:54.772000 100 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 103 closing signal SIGTERM
E1214 08:06:55.807000 100 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 104) of binary: python
"""


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def test_a_kill_that_nobody_explains_has_many_possible_senders(tmp_path: Path) -> None:
    incident = told(tmp_path, TORCHRUN)
    assert (incident.category, incident.culprit.ranks) == ("oom", (1,))
    causes = {one.cause: one.probability for one in incident.hypotheses}
    assert {"host-out-of-memory", "cgroup-limit", "preempted", "time-limit", "signal-from-outside"} <= set(causes)
    assert max(causes.values()) < 0.55
    assert incident.confidence < 0.75


def test_a_kill_that_the_kernel_explains_has_one(tmp_path: Path) -> None:
    kernel = "[Sun Dec 14 08:06:53 2025] Out of memory: Killed process 104 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
    (tmp_path / "dmesg").write_text(kernel)
    incident = told(tmp_path, TORCHRUN)
    assert incident.category == "oom"
    senders = sum(one.probability for one in incident.hypotheses if one.category == "preemption")
    assert senders < 0.1
    assert incident.confidence > told_alone(tmp_path / "alone")


def told_alone(folder: Path) -> float:
    folder.mkdir()
    return told(folder, TORCHRUN).confidence


def test_one_rank_that_speaks_is_named_though_others_must_be_there(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
[rank11]: Traceback (most recent call last):
[rank11]:   File "/env/swift/pipelines/train/sft.py", line 120, in _prepare_dataset
[rank11]:     return self._get_dataset()
[rank11]: FileNotFoundError: [Errno 2] No such file or directory
""")  # fmt: skip
    assert (incident.category, incident.culprit.ranks) == ("data", (11,))


def test_several_that_one_line_names_are_all_named(tmp_path: Path) -> None:
    incident = told(
        tmp_path, "RuntimeError: [Rank 0]: Ranks 4, 5, 6, 7 failed to pass monitoredBarrier in 2000000 ms\n"
    )
    assert incident.culprit.ranks == (4, 5, 6, 7)
    assert incident.state == "hung"


def test_a_traceback_that_is_cut_off_points_to_who_printed_it(tmp_path: Path) -> None:
    lines = [f"[1,{rank}]<stdout>:step 10 loss: 0.{rank + 4}" for rank in range(4)]
    lines += [
        "[1,2]<stderr>:Traceback (most recent call last):",
        '[1,2]<stderr>:  File "/job/train.py", line 20, in main',
    ]
    assert told(tmp_path, "\n".join(lines) + "\n").culprit.ranks == (2,)


@pytest.mark.parametrize(
    ("first", "state"),
    [
        ("[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: A(SequenceNumber=7), "
         "but Rank 1 is running collective: B(SequenceNumber=7).", "crashed"),
        ("[rank0]: RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
         "hung"),
    ],
)  # fmt: skip
def test_a_call_that_fails_is_a_crash_and_one_that_waits_a_hang(tmp_path: Path, first: str, state: str) -> None:
    assert told(tmp_path, first + "\n").state == state


def test_what_nccl_tells_for_information_is_no_trouble(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
node1:24437:24484 [0] NCCL INFO Failed to open libibverbs.so[.1]
node1:24437:24484 [0] NCCL INFO NET/Socket : Using [0]enp0s31f6:192.168.207.78<0>
""")  # fmt: skip
    assert incident.category in ("none", "cannot-tell")
    assert not incident.unknown


def test_a_pod_that_went_for_disk_was_not_out_of_memory(tmp_path: Path) -> None:
    line = "Message:        The node was low on resource: {}. Container trainer was using 34260Ki, which exceeds its request of 0.\n"
    assert told(tmp_path, "Reason:         Evicted\n" + line.format("ephemeral-storage")).category == "preemption"
    assert told(tmp_path, "Reason:         Evicted\n" + line.format("memory")).category == "oom"


@pytest.mark.parametrize(
    ("frame", "category"),
    [
        ('/env/lib/python3.8/site-packages/transformers/file_utils.py", line 281, in <module>', "environment"),
        ('train.py", line 12, in <module>', "usercode"),
        ('train.py", line 12, in step', "usercode"),
    ],
)
def test_what_breaks_while_a_library_is_imported_is_its_version(tmp_path: Path, frame: str, category: str) -> None:
    text = f"Traceback (most recent call last):\n  File \"{frame}\n    x.major\nAttributeError: 'Version' object has no attribute 'major'\n"
    assert told(tmp_path, text).category == category


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("/data/dataset/index-cache/43d5_doc_idx.npy", "data"),
        ("/data/out/checkpoint-500/optimizer.pt", "checkpoint"),
        ("/usr/local/cuda/bin/nvcc", "environment"),
    ],
)
def test_a_missing_file_is_what_its_name_says(tmp_path: Path, path: str, category: str) -> None:
    assert told(tmp_path, f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n").category == category


def test_a_plugin_that_nccl_goes_on_without_is_no_missing_library(tmp_path: Path) -> None:
    plugin = (
        "gpu:76739:76739 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: "
        "cannot open shared object file: No such file or directory\n"
    )
    assert told(tmp_path, plugin + TORCHRUN).category == "oom"
    assert told(tmp_path, plugin.replace("NCCL INFO NET/Plugin", "ImportError")).category == "environment"


def test_bars_of_batches_are_steps(tmp_path: Path) -> None:
    text = "".join(f"  1%|          | {n}/1250 [00:{n:02d}<10:17:22, 29.99s/batch]\n" for n in range(1, 18))
    assert told(tmp_path, text).category == "none"


def _setting_up(lines: int) -> str:
    """What a program prints while it sets up: neither steps nor trouble."""
    return "".join(f"option_{number}: value-{number}\n" for number in range(lines))


def test_many_lines_without_a_word_of_trouble_name_no_failure_and_no_success(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(_setting_up(60))
    report = diagnose(tmp_path)
    incident = report.incident
    assert incident is not None
    assert (incident.category, incident.state, report.verdict) == ("none", "unknown", "UNKNOWN")
    assert incident.headline == "no word of trouble in 60 lines, which do not tell how far the run came"
    assert 0.8 <= incident.confidence < 0.98


def test_a_few_lines_without_a_word_of_trouble_are_less_sure(tmp_path: Path) -> None:
    incident = told(tmp_path, _setting_up(20))
    assert (incident.category, incident.state, incident.confidence) == ("none", "unknown", 0.8)


@pytest.mark.parametrize("text", [_setting_up(4), _setting_up(20) + "part 7 is missing\n"])
def test_hardly_a_line_or_a_word_of_trouble_tell_nothing(tmp_path: Path, text: str) -> None:
    incident = told(tmp_path, text)
    assert (incident.category, incident.state, incident.confidence) == ("cannot-tell", "unknown", 0.0)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("the stream of card 3 timed out, its partner is gone", "network"),
        ("dgx:1050:1316 [0] NCCL INFO include/net.h:25 -> 2", "network"),
        ("the container was killed: out of memory", "oom"),
        ("Train: No labels found in /data/train/labels.cache, can not start training.", "data"),
    ],
)
def test_of_a_few_lines_any_word_may_tell(tmp_path: Path, line: str, category: str) -> None:
    assert told(tmp_path, f"begin\n{line}\n").category == category
    assert told(tmp_path, _setting_up(60) + f"{line}\n").category != category


def test_what_is_known_to_be_harmless_does_not_tell_in_a_few_lines_either(tmp_path: Path) -> None:
    text = "/usr/bin/ld: cannot find -lcufile\ncollect2: error: ld returned 1 exit status\nLoading the model\n"
    assert told(tmp_path, text).category in ("none", "cannot-tell")


def test_lines_that_look_like_trouble_and_that_nothing_explains_are_not_called_calm(tmp_path: Path) -> None:
    incident = told(tmp_path, _setting_up(60) + "FATAL: frobnicator error 17: cannot continue\n")
    assert incident.category != "none"


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("已杀死", "oom"),
        ("zsh: killed     python train.py", "oom"),
        ("段错误 (核心已转储)", "other"),
        ("MOAB_INFO:  job exceeded wallclock limit", "preemption"),
        ("Windows fatal exception: access violation", "other"),
    ],
)
def test_shells_and_batch_systems_of_many_kinds_tell_how_it_ended(tmp_path: Path, line: str, category: str) -> None:
    assert told(tmp_path, _setting_up(8) + f"{line}\n").category == category


def test_an_exception_that_was_made_bold_is_one(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
  File "train.py", line 20, in main
    info = self.coco.loadImgs(self.image_ids[index])[0]
  File "/env/lib/python3.6/site-packages/pycocotools/coco.py", line 229, in loadImgs
    return [self.imgs[id] for id in ids]
**KeyError: '2'**
""")  # fmt: skip
    assert incident.category == "data"


def test_the_process_that_mpi_noticed_by_an_abort_began_it(tmp_path: Path) -> None:
    said = "prterun noticed that process rank 7 with PID 0 on node gpu0304 exited on signal 6 (Aborted).\n"
    incident = told(tmp_path, _setting_up(5) + said)
    assert (incident.category, incident.culprit.ranks) == ("other", (7,))


def test_addresses_before_each_line_are_labels_also_of_few_lines(tmp_path: Path) -> None:
    step = "192.168.12.21: {{'loss': 0.24{}, 'grad_norm': 0.3, 'epoch': 0.{}}}\n"
    said = "192.168.13.81: [rank19]:[E808 10:31:07.406255799 ProcessGroupNCCL.cpp:1895] [PG ID 1 PG GUID 1 Rank 19]"
    text = "".join(step.format(n, n) for n in range(3)) + said + " Process group watchdog thread terminated with"
    incident = told(tmp_path, text + " exception: CUDA error: unspecified launch failure\n192.168.13.81: CUDA kernel\n")
    assert incident.culprit.ranks == (19,)


_STACK = 'File "/job/ppocr/data/simple_dataset.py", line 171 in getitem\n'


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (_STACK * 6, "data"),
        ("KeyError: 'RTMDet is not in the mmdet::model registry. Please check whether it was registered.'\n", "environment"),
        ("""KeyError: "No object named 'MyNet' found in 'BACKBONES' registry!"\n""", "environment"),
        ("BrokenPipeError: [WinError 109] The pipe has been ended\n", "other"),
        ("Exception raised from c10_cuda_check_implementation at /c10/cuda/CUDAException.cpp:43\n", "other"),
        ("ResourceExhaustedError: the card is full\n", "oom"),
        ("child process with PID 4711 terminated with code 1. Forcefully terminating all others\n", "other"),
    ],
)  # fmt: skip
def test_frames_registries_pipes_and_launchers_of_other_frameworks_tell(
    tmp_path: Path, text: str, category: str
) -> None:
    assert told(tmp_path, text).category == category


def test_a_key_that_a_library_of_data_sets_looks_up_in_its_registry_is_a_setting(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "tools/train.py", line 164, in main
    datasets = [build_dataset(cfg.data.train)]
  File "/env/lib/python3.7/site-packages/mmdet/datasets/builder.py", line 71, in build_dataset
    dataset = build_from_cfg(cfg, DATASETS, default_args)
  File "/env/lib/python3.7/site-packages/mmcv/utils/registry.py", line 44, in build_from_cfg
    raise KeyError(f'{obj_type} is not in the {registry.name} registry')
KeyError: 'BDDDataset is not in the dataset registry'
""")  # fmt: skip
    assert incident.category == "environment"


@pytest.mark.parametrize(
    ("line", "category", "ranks"),
    [
        ("ERROR launch_utils.py:545] ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted.", "other", (3,)),
        ("Container rank 0 status failed cmd ['python', '-u', 'train.py'] code -9 log ./debug/workerlog.0", "oom", (0,)),
    ],
)  # fmt: skip
def test_the_launchers_of_paddle_tell_whom_they_saw_end(
    tmp_path: Path, line: str, category: str, ranks: tuple[int, ...]
) -> None:
    incident = told(tmp_path, f"LAUNCH INFO 2024-03-10 00:35:50,211 Pod failed\n{line}\n")
    assert (incident.category, incident.culprit.ranks) == (category, ranks)


def test_a_check_that_failed_below_a_bar_ends_the_run(tmp_path: Path) -> None:
    bars = "".join(f" {n}%|#  | {n}/100 [00:{n:02d}<10:17, 29.99ba/s]\n" for n in range(10, 40))
    end = "Exception in device=TPU:1: xrt_computation_client.cc:415 : Check failed: session->Run() (Cancelled: by TearDown)\n"
    assert told(tmp_path, bars + end).category == "other"


_STALLED = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for"
)


@pytest.mark.parametrize(
    "text",
    [
        f"W stall_inspector.cc:105] {_STALLED} remainder of ranks for more than 60 seconds.\nMissing ranks:\n1: [Add_0]\n",
        "".join(f"[1,0]<stderr>:W operations.cc:588] Broadcast_{name} [missing ranks: 1]\n" for name in "abc"),
    ],
)
def test_whom_horovod_waits_for_began_it(tmp_path: Path, text: str) -> None:
    incident = told(tmp_path, text)
    assert (incident.category, incident.culprit.ranks, incident.state) == ("network", (1,), "hung")


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("sagemaker-containers ERROR    ExecuteUserScriptError:\n", "other"),
        ("UnexpectedStatusException: Error for Training job a-1: Failed. Reason: AlgorithmError: Exit Code: 1\n", "other"),
        ("Your session crashed after using all available RAM.\n", "oom"),
        ("The kernel appears to have died. It will restart automatically.\n", "other"),
        ("ValueError: Input 0 of layer \"conv2d\" is incompatible with the layer: found ndim=3\n", "usercode"),
        ("Memory critical error by agent node-1 (Agent handle: 0x2a) on address 0x3f. Reason: Memory in use.\n", "hardware"),
    ],
)  # fmt: skip
def test_services_and_notebooks_tell_in_their_own_words(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text).category == category


def test_a_count_of_nought_is_no_trouble(tmp_path: Path) -> None:
    counted = (
        "train: Scanning '/val.cache' for images and labels... 5995 found, 0 missing, 0 empty, 0 corrupted: 100%\n"
    )
    assert told(tmp_path, counted).category != "data"
    assert told(tmp_path, counted.replace("0 corrupted", "7 corrupted")).category == "data"


def test_the_number_of_a_rank_is_no_count(tmp_path: Path) -> None:
    assert (
        told(tmp_path, "image of rank 0 corrupted\n").category
        == told(tmp_path, "image of rank 1 corrupted\n").category
        == "data"
    )


def test_what_a_library_was_built_without_is_of_the_environment(tmp_path: Path) -> None:
    refused = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 40, in <module>\n'
        "    main()\n"
        "NotImplementedError: (Unimplemented) Place CUDAPlace(0) is not supported."
        " Please check that your paddle compiles with WITH_GPU, WITH_XPU or WITH_ASCEND_CL option\n"
    )
    assert told(tmp_path, refused).category == "environment"
