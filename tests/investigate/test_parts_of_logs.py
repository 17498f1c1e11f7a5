"""What is concluded from parts of logs: ends that are cut off, workers of engines, schedulers that name several tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs import read_logs
from preflight.source.logs.predicates import not_of_an_average
from preflight.source.logs.prefixes import head_of
from preflight.vocabulary.incident import Incident

STEPS = "".join(f"step {number} loss {3 - number / 10:.2f} grad_norm 1.0\n" for number in range(5))


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    "end", ["Traceback (most recent call last):\n", "Traceback (most recent", "ERROR Traceback (most recent call\n"]
)
def test_a_log_that_ends_with_a_header_is_not_healthy(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + end).state == "crashed"


def test_what_breaks_off_while_a_checkpoint_is_written_is_about_it(tmp_path: Path) -> None:
    incident = told(tmp_path, STEPS + "Saving checkpoint to out/step4.pth\nTraceback (most recent")
    assert incident.category == "checkpoint"


def test_the_same_words_within_a_log_are_no_end(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("Traceback (most of it)\n" + STEPS)
    assert read_logs([tmp_path]).raised == ()


@pytest.mark.parametrize(
    ("line", "rank", "pid"),
    [
        ("(VllmWorker TP3 pid=432) ERROR 09-05 21:05:38 it broke", 3, 432),
        ("(Worker_DP1_TP7_EP7 pid=78185) INFO 10-23 17:17:47 it goes on", 7, 78185),
        ("(VllmWorker rank=2 pid=4998) ERROR 05-08 06:20:10 it broke", 2, 4998),
        ("[2025-02-24 14:09:34 TP14] Scheduler hit an exception", 14, None),
        ("[2025-02-24 14:09:34 DP1 TP5 EP5] Scheduler hit an exception", 5, None),
        ("(Worker_PP0_TP1 pid=813) INFO 10-23 17:17:47 it goes on", 1, 813),
        ("(Worker_PP1_TP1 pid=814) INFO 10-23 17:17:47 it goes on", None, 814),
        ("[2025-02-24 14:09:34 PP1 TP5] Scheduler hit an exception", None, None),
        ("2025-02-24 14:09:34 [Worker:6] [INFO] returning", None, None),
    ],
)
def test_workers_of_engines_bear_their_rank(line: str, rank: int, pid: int | None) -> None:
    who = head_of(line).who
    assert (who.rank, who.pid) == (rank, pid)


@pytest.mark.parametrize(
    ("label", "numbers", "rank", "ranks"),
    [
        ("[Worker:{}] ", (0, 1, 2), "", {0, 1, 2}),
        ("[worker {}] ", (1, 2, 3), "", set()),
        ("[worker {}] ", (0, 1, 2), "[rank5]: ", {5}),
        ("[Process {}] ", (48211, 48212), "", set()),
        ("[process {}] ", (0, 1), "", set()),
    ],
)
def test_workers_are_ranks_where_all_are_there_and_none_is_named_otherwise(
    tmp_path: Path, label: str, numbers: tuple[int, ...], rank: str, ranks: set[int]
) -> None:
    lines = [f"{label.format(number)}ERROR: it broke" for number in numbers] * 3 + (
        [f"{rank}ERROR: so did this"] if rank else []
    )
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    assert {rank for one in read_logs([tmp_path]).unknown for rank in one.ranks} == ranks


def test_tasks_that_one_line_names_are_named_together(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
slurmstepd: error: Detected 1 oom_kill event in StepId=44.0. Some of the step tasks have been OOM Killed.
srun: error: nid12: tasks 2-4: Out Of Memory
slurmstepd: error: *** STEP 44.0 ON nid12 CANCELLED AT 2023-12-05T07:16:01 ***
""")  # fmt: skip
    assert (incident.category, incident.culprit.ranks) == ("oom", (2, 3, 4))
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 2


def test_the_entry_of_a_table_that_lost_its_title_is_read(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
  rank      : 3 (local_rank: 3)
  exitcode  : -11 (pid: 6421)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 6421
======================================================
""")  # fmt: skip
    assert (incident.category, incident.culprit.ranks) == ("other", (3,))


def fingerprint(sequence: int) -> str:
    return f"CollectiveFingerPrint(SequenceNumber={sequence}, OpType=ALLREDUCE, TensorShape=[16])"


@pytest.mark.parametrize(("printer", "other", "culprits"), [(1, 7, (7,)), (26, 1, (1,)), (1, 0, ()), (0, 1, ())])
def test_ranks_before_the_first_that_differs_agree(
    tmp_path: Path, printer: int, other: int, culprits: tuple[int, ...]
) -> None:
    text = (
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {printer} is running collective: {fingerprint(9)}, "
        f"but Rank {other} is running collective: {fingerprint(3)}.\n"
    )
    assert told(tmp_path, text).culprit.ranks == culprits


def test_ranks_that_are_known_from_others_alone_can_be_of_the_minority(tmp_path: Path) -> None:
    pairs = [(0, 2, "REDUCE", "BROADCAST"), (3, 0, "BROADCAST", "REDUCE"), (4, 0, "BROADCAST", "REDUCE")]
    text = "".join(
        f"[rank{printer}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {printer} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=5, OpType={mine}), but Rank {other} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=5, OpType={theirs}).\n"
        for printer, other, mine, theirs in pairs
    )
    assert set(told(tmp_path, text).culprit.ranks) <= {0, 1}


def test_composer_names_the_first_that_ended(tmp_path: Path) -> None:
    text = "2023-04-24 16:03:12,379: rank0[1003409]: DEBUG: composer.utils.dist: local_world_size=8, world_size=8\n"
    assert told(tmp_path, text + "ERROR:composer.cli.launcher:Rank 1 crashed with exit code 1.\n").culprit.ranks == (1,)


def test_a_worker_that_an_event_of_the_agent_names_has_failed(tmp_path: Path) -> None:
    text = (
        '{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "metadata": {"run_id": "1", "global_rank": 5, '
        '"group_rank": 1, "state": "FAILED", "total_run_time": 43}}\n'
    )
    (tmp_path / "run.log").write_text(text)
    assert [(one.about.rank, one.teller) for one in read_logs([tmp_path]).endings] == [(5, "elastic")]


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("565/20101 [14.05s/it, loss=nan, v_num=, reduced_train_loss=3.910, gradient_norm=1.010", False),
        ("{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-05}", True),
        ("step 9 loss: nan val_loss: 2.1", True),
        ("{'eval_loss': nan, 'eval_runtime': 0.01, 'eval_samples_per_second': 0.0, 'epoch': 2.0}", False),
        ("{'eval_loss': nan, 'eval_runtime': 9.1, 'eval_samples_per_second': 71.5, 'epoch': 2.0}", True),
        ("epoch 3 train_loss 0.4 val_loss nan (0 samples)", False),
    ],
)
def test_a_loss_counts_unless_it_is_an_average_beside_one_that_is_a_number(text: str, taken: bool) -> None:
    assert not_of_an_average({}, text) is taken


def test_a_communicator_that_cannot_be_made_is_about_the_network(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
  File "C:\\env\\Lib\\site-packages\\torch\\distributed\\distributed_c10d.py", line 244, in new_group
    self.comm = self.make(
""")  # fmt: skip
    assert incident.category == "network"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (
            "-----\nOutOfMemoryError                Traceback (most recent call last)\nCell In[3], line 2\n----> 2 train()\n",
            "oom",
        ),
        (
            "-----\nRuntimeError              Traceback (most recent call last)\n<ipython-input-5-aa> in <module>\n----> 1 go()\n"
            "/env/lib/python3.10/site-packages/torch/_dynamo/eval_frame.py in __call__(self, x)\n---> 12 return super()\n",
            "compile",
        ),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 6.48G of memory.\n", "oom"),
        ("collected 12 items\n============== 12 passed, 1 warning in 34.21s ==============\n", "none"),
        ("collected 12 items\n============== 1 failed, 11 passed in 34.21s ==============\n", "other"),
    ],
)
def test_notebooks_other_frameworks_and_suites_of_tests(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text).category == category


def test_what_a_scheduler_ends_is_not_mended_by_a_bar_that_is_drawn_again(tmp_path: Path) -> None:
    bars = [f"Epoch 10: 93%|#9| {number}/20000 [5:43:21<25:20, 0.90it/s, loss=3.4]\n" for number in (7, 8, 8, 9, 10)]
    limit = "slurmstepd: error: *** STEP 5.0 ON m1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
    assert told(tmp_path, "".join([*bars[:2], limit, *bars[2:]])).category == "preemption"


def test_the_only_task_that_was_not_terminated_began_it(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
slurmstepd: error: *** STEP 5.0 ON n2 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***
srun: error: n2: tasks 0-4,6-15: Terminated
""")  # fmt: skip
    assert (incident.category, incident.culprit.ranks) == ("other", (5,))


def test_a_launcher_that_tells_of_a_signal_is_no_error_of_the_program(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    mp.spawn(run, nprocs=4)
  File "/env/torch/multiprocessing/spawn.py", line 107, in join
    (error_index, name)
Exception: process 3 terminated with signal SIGKILL
""")  # fmt: skip
    assert (incident.category, incident.culprit.ranks) == ("oom", (3,))


def test_what_breaks_in_a_launcher_as_it_stops_is_not_the_cause(tmp_path: Path) -> None:
    incident = told(tmp_path, """\
Traceback (most recent call last):
  File "/env/deepspeed/launcher/runner.py", line 548, in sigkill_handler
    result_kill = subprocess.Popen(kill_cmd, env=env)
NameError: free variable 'kill_cmd' referenced before assignment in enclosing scope
""")  # fmt: skip
    assert incident.category == "other"


def test_a_warning_of_nccl_that_nobody_knows_is_about_the_network(tmp_path: Path) -> None:
    assert (
        told(tmp_path, "n1:19491:21059 [7] proxy.cc:1143 NCCL WARN Socket was lost for opId=0x7f\n").category
        == "network"
    )


def test_what_the_compiler_tells_of_itself_it_has_caught(tmp_path: Path) -> None:
    from preflight.source.logs.predicates import not_told_by_the_compiler

    raised = "torch._dynamo.exc.Unsupported: HigherOrderOperator"
    assert not_told_by_the_compiler({}, raised)
    assert not not_told_by_the_compiler({}, f"[44/0] torch._dynamo.variables.higher_order_ops: [ERROR] {raised}")
    head = "[rank1]:[2024-04-17 17:27:05,989] [44/0] torch._dynamo.variables.higher_order_ops: [ERROR] "
    lines = [
        "Traceback (most recent call last):",
        '  File "/env/torch/_dynamo/exc.py", line 193, in unimplemented',
        raised,
    ]
    incident = told(tmp_path, "".join(f"{head}{line}\n" for line in lines) + STEPS)
    assert incident.category == "none"


TOP = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


_GENERATED = (
    "E0305 20:23:38.890000 755 site-packages/torch/_inductor/runtime/triton_heuristics.py:533]     tmp3 = tmp1 * tmp2\n"
    "E0305 20:23:38.890000 755 site-packages/torch/_inductor/runtime/triton_heuristics.py:533]     tl.store(out, tmp3)\n"
)


def test_a_compilers_last_word_is_about_compiling_and_not_about_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(_GENERATED)
    incident = diagnose([tmp_path]).incident
    assert incident is not None
    assert incident.category == "compile"


def test_what_a_compiler_tells_is_none_where_the_run_goes_on(tmp_path: Path) -> None:
    steps = "".join(f"step {step} loss {3 - step / 100:.3f}\n" for step in range(100))
    (tmp_path / "run.log").write_text(_GENERATED + steps)
    incident = diagnose([tmp_path]).incident
    assert incident is not None
    assert incident.category == "none"


def test_the_loss_that_others_are_held_against_is_infinite_before_there_is_any(tmp_path: Path) -> None:
    steps = "".join(f"epoch {step} loss: {3 - step / 100:.3f}\n" for step in range(40))
    (tmp_path / "run.log").write_text("Best val loss: inf\n" + steps)
    incident = diagnose([tmp_path]).incident
    assert incident is not None
    assert incident.category == "none"


def test_a_loss_that_becomes_infinite_is_numerical(tmp_path: Path) -> None:
    table = "Learning iteration 8391/10000\n\n   Value function loss: inf\n     Surrogate loss: 0.0000\n"
    (tmp_path / "run.log").write_text(table)
    incident = diagnose([tmp_path]).incident
    assert incident is not None
    assert incident.category == "numerical"


def test_what_an_exception_says_of_a_beginning_is_no_beginning(tmp_path: Path) -> None:
    incident = told(tmp_path, TOP + "RuntimeError: Trying to resume from a checkpoint of another world size\n")
    assert (incident.state, incident.category) == ("crashed", "checkpoint")


def test_a_line_that_names_a_cause_tells_more_than_how_the_process_died(tmp_path: Path) -> None:
    line = "[lib FATAL common.cc:83] This program was built for 3.9, which is not compatible with the installed version (3.20)."
    assert told(tmp_path, f"{line}\nterminate called without an active exception\n").category == "environment"


def test_a_program_that_refused_its_arguments_was_started_again(tmp_path: Path) -> None:
    refused = "usage: train.py [-h]\ntrain.py: error: the following arguments are required: --data\n"
    assert told(tmp_path, refused).category == "usercode"
    assert told(tmp_path, refused + TOP + "ModuleNotFoundError: No module named 'einops'\n").category == "environment"

    assert told(tmp_path, refused).signature == "usercode.unrecognized-arguments"
    assert told(tmp_path, refused + TOP + "NameError: name 'os' is not defined\n").signature == "usercode.name-missing"


def test_a_script_that_was_not_there_belongs_to_an_earlier_start(tmp_path: Path) -> None:
    first = "python: can't open file 'trian.py': [Errno 2] No such file or directory\n"
    last = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nKeyboardInterrupt\n'
    assert told(tmp_path, first + last).category == "preemption"
    assert told(tmp_path, first).category == "environment"


@pytest.mark.parametrize(("code", "category"), [(1, "network"), (3, "other")])
def test_others_say_what_a_rank_that_only_raised_did_not(tmp_path: Path, code: int, category: str) -> None:
    said = "".join(
        f"[rank{rank}]: RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
        for rank in (0, 2)
    )
    agent = f"torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: {code}) local_rank: 1 (pid: 6833) of binary: /env/bin/python\n"
    assert told(tmp_path, said + "E1211 08:26:06.844000 1395 " + agent).category == category


@pytest.mark.parametrize(("between", "category"), [(60, "none"), (2, "usercode")])
def test_exceptions_that_are_told_again_and_again_were_caught(tmp_path: Path, between: int, category: str) -> None:
    words = ("apple", "brick", "cloud", "drum", "eagle", "flute")
    text = "".join(f"ValueError: no action in {word}\n" + f"answer {word} is scored\n" * between for word in words)
    assert told(tmp_path, text).category == category
