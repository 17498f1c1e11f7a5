"""Who began it where engines, schedulers, agents and the ranks' own last words tell it, and where restarts never begin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.dumps import stack_dump
from preflight.source.logs.endings import ends
from preflight.vocabulary.incident import Incident

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
TIMED_OUT = GLOO + "unbound_buffer.cc:78] Timed out waiting 8000ms for {} operation to complete"
MESH = "RuntimeError: Gloo connectFullMesh failed with " + GLOO + "pair.cc:152] timed out connecting\n"
Investigated = Callable[..., Incident]


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def steps(rank: int, last: int = 6) -> str:
    return "".join(f"2026-11-22 19:34:{step:02d} rank {rank}: step {step} loss 1.{step}\n" for step in range(last))


def raised(rank: int, says: str, line: int = 40, inside: str = "all_reduce", error: str = "RuntimeError") -> str:
    library = "/opt/venv/lib/python3/site-packages/torch/distributed/distributed_c10d.py"
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line {line}, in main\n[rank{rank}]:     dist.{inside}(loss)\n'
        f'[rank{rank}]:   File "{library}", line 979, in {inside}\n[rank{rank}]: {error}: {says}\n'
    )


def closing(second: int, *pids: int) -> str:
    where = "torch/distributed/elastic/multiprocessing/api.py:1028]"
    return "".join(
        f"W1122 19:34:{second:02d}.331000 900 {where} Sending process {pid} closing signal SIGTERM\n" for pid in pids
    )


def ended(second: int, local: int, pid: int, code: int = 1) -> str:
    where = "torch/distributed/elastic/multiprocessing/api.py:1002]"
    said = f"failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3\n"
    return f"E1122 19:34:{second:02d}.503000 900 {where} {said}"


@pytest.mark.parametrize(
    ("line", "rank", "pid", "code"),
    [
        ("Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", 1, None, None),
        ("Worker proc VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor", 3, None, -9),
        ("Worker VllmWorkerProcess pid 3283517 died, exit code: -15", None, 3283517, -15),
        ("Rank 3 scheduler is dead. Please check if there are relevant logs.", 3, None, None),
        (
            "Worker port: 10393 Worker PID: 66408 Worker exit type: SYSTEM_ERROR Worker exit detail: x",
            None,
            66408,
            None,
        ),
        ("srun: error: n1: task 3: Alarm clock", 3, None, -14),
        ("srun: error: n1: task 4: Bus error (core dumped)", 4, None, -7),
    ],
)
def test_whoever_looks_after_workers_tells_which_one_died(
    line: str, rank: int | None, pid: int | None, code: int | None
) -> None:
    end = ends(line)
    assert end is not None
    assert (end.about[0].rank, end.about[0].pid, end.code) == (rank, pid, code)


def test_a_worker_that_ray_ended_as_its_program_meant_it_to_did_not_die() -> None:
    assert ends("Worker PID: 66408 Worker exit type: INTENDED_USER_EXIT Worker exit detail: x") is None


def test_the_worker_that_its_engine_found_dead_is_named(incident_of: Investigated) -> None:
    text = (
        "ERROR 07-04 17:35:16 [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, shutting down.\n"
    )
    incident = incident_of(server=text)
    assert incident.culprit.ranks == (1,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 1


def test_an_actor_of_ray_is_known_by_its_process(incident_of: Investigated) -> None:
    who = "".join(
        f"(TorchTrainer pid=3) - (node_id=8f, ip=10.0.0.1, pid={pid}) world_rank={rank}, local_rank={rank}, node_rank=0\n"
        for rank, pid in enumerate((4100, 4101, 4102))
    )
    died = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    died += "\tclass_name: RayTrainWorker\n\tactor_id: f2520e\n\tpid: 4102\n\tnamespace: 8789\n\tip: 10.0.0.1\n"
    assert incident_of(driver=who + died).culprit.ranks == (2,)


def test_a_step_that_srun_cancels_because_a_task_failed_was_not_cancelled_by_a_person(
    incident_of: Investigated,
) -> None:
    lost = "".join(raised(rank, GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:6053") for rank in (0, 2))
    cancelled = "slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED AT 2026-11-23T03:00:29 ***\n"
    told = "srun: error: n1: task 3: Exited with exit code 1\n"
    after = "srun: error: n1: tasks 0-2: Terminated\n"
    begun = "".join(f"rank {rank}: step {step} loss 1.0\n" for step in range(6) for rank in range(4))
    assert incident_of(slurm=begun + lost + told + cancelled + after).culprit.ranks == (3,)


def test_a_step_that_a_person_cancels_has_no_culprit(incident_of: Investigated) -> None:
    cancelled = "slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED AT 2026-11-23T03:00:29 ***\n"
    begun = "".join(f"rank {rank}: step {step} loss 1.0\n" for step in range(6) for rank in range(4))
    incident = incident_of(slurm=begun + cancelled + "srun: error: n1: tasks 0-3: Terminated\n")
    assert incident.category == "preemption"
    assert incident.culprit.ranks == ()


def test_the_rank_that_says_it_is_done_is_the_one_that_others_wait_for(incident_of: Investigated) -> None:
    logs = {f"worker_rank{rank}": steps(rank) + raised(rank, TIMED_OUT.format("recv")) for rank in (0, 1, 3)}
    assert incident_of(**logs, worker_rank2=steps(2) + "no more batches for this rank\n").culprit.ranks == (2,)


def test_in_a_ring_of_some_ranks_the_one_before_the_sender_is_suspected(incident_of: Investigated) -> None:
    logs = {
        "worker_rank0": steps(0) + raised(0, TIMED_OUT.format("recv"), 44, "all_gather"),
        "worker_rank1": steps(1) + raised(1, TIMED_OUT.format("send"), 44, "all_gather"),
        "worker_rank2": steps(2) + raised(2, TIMED_OUT.format("send"), 40, "all_reduce"),
        "worker_rank3": steps(3) + raised(3, TIMED_OUT.format("recv"), 40, "all_reduce"),
    }
    assert incident_of(**logs).culprit.ranks == (1,)


def test_restarts_that_never_begin_are_told_by_what_ended_the_start_before(incident_of: Investigated) -> None:
    begun = "".join(f"[rank{rank}]: step {step} loss 1.0\n" for step in range(6) for rank in range(3))
    first = begun + raised(2, "'attention_mask'", error="KeyError") + closing(10, 41, 42) + ended(10, 2, 43)
    again = "[E1122 19:34:20.028864236 ProcessGroupGloo.cpp:67] Gloo connectFullMesh failed with timed out connecting\n"
    second = again + MESH + closing(22, 51, 53) + ended(22, 0, 50)
    incident = incident_of(console=first + second)
    assert incident.culprit.ranks == (2,)
    assert incident.signature == "usercode.key-missing"


def test_a_start_that_waits_for_those_who_never_met_is_told_by_what_ended_the_first(incident_of: Investigated) -> None:
    begun = "".join(f"[rank{rank}]: step {step} loss 1.0\n" for step in range(6) for rank in range(3))
    first = begun + raised(2, "'attention_mask'", error="KeyError") + closing(10, 41, 42) + ended(10, 2, 43)
    second = MESH + closing(22, 51, 53) + ended(22, 0, 50)
    third = raised(0, TIMED_OUT.format("send"), inside="_verify_params") + closing(42, 61, 62) + ended(42, 0, 60)
    incident = incident_of(console=first + second + third)
    assert incident.culprit.ranks == (2,)
    assert incident.signature == "usercode.key-missing"


def test_an_agent_tells_how_many_workers_it_had_and_which_is_which(incident_of: Investigated) -> None:
    text = steps(0) + raised(0, TIMED_OUT.format("send")) + raised(1, TIMED_OUT.format("recv"))
    text += raised(2, TIMED_OUT.format("recv"), 55) + closing(20, 41, 42, 43) + ended(20, 0, 40)
    incident = incident_of(console=text)
    assert incident.world_size == 4
    assert incident.culprit.ranks == (3,)


def test_two_agents_of_the_same_number_that_tell_at_once_are_no_restart(incident_of: Investigated) -> None:
    begun = "".join(f"{rank}: step {step} loss 1.0\n" for step in range(6) for rank in range(4))
    cause = raised(3, "'attention_mask'", error="KeyError")
    incident = incident_of(slurm=begun + cause + ended(10, 1, 41) + ended(10, 0, 61))
    assert len(incident.attempts) == 1


def test_a_norm_of_gradients_is_no_number_because_of_another_rank(incident_of: Investigated) -> None:
    dicts = "".join(f"{{'loss': 0.5, 'grad_norm': 1.{step}, 'epoch': {step}.0}}\n" for step in range(1, 8))
    logs = {
        "worker_rank0": dicts + "{'loss': 0.5, 'grad_norm': nan, 'epoch': 8.0}\n",
        "worker_rank1": dicts,
        "worker_rank2": dicts + raised(2, "loss is nan on rank 2 at step 8", error="AssertionError"),
    }
    assert incident_of(**logs).culprit.ranks == (2,)


def test_who_did_not_come_to_the_start_is_told_by_the_store_and_by_those_who_did(incident_of: Investigated) -> None:
    text = "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
    text += "torch.distributed.DistStoreError: Timed out after 16 seconds waiting for clients. 1/2 clients joined.\n"
    incident = incident_of(train=text)
    assert incident.culprit.ranks == (1,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 0


def test_the_number_of_an_entry_in_a_table_is_no_rank_that_speaks(incident_of: Investigated) -> None:
    text = "FileNotFoundError: [Errno 2] No such file or directory: '/job/config.yaml'\n" * 3
    entry = "[{0}]:\n  time      : 2026-06-08_19:04:45\n  host      : n1\n  rank      : {1} (local_rank: {1})\n" \
        "  exitcode  : 1 (pid: 10293{1})\n  error_file: <N/A>\n  traceback : To enable traceback see: https://x\n"  # fmt: skip
    text += closing(20, 102931) + ended(20, 0, 102930)
    text += "Failures:\n" + entry.format(1, 2) + entry.format(2, 3)
    text += "Root Cause (first observed failure):\n" + entry.format(0, 0)
    assert incident_of(console=text).culprit.ranks in ((), (0,))


def test_the_place_that_stays_empty_in_a_group_tells_who_did_not_make_it(incident_of: Investigated) -> None:
    says = "wait timeout after 8000ms, keys: /default_pg/0//1//cpu//0/1"
    logs = {f"worker_rank{rank}": steps(rank) + raised(rank, says, inside="new_group") for rank in (1, 3)}
    logs["worker_rank0"] = steps(0) + raised(0, TIMED_OUT.format("send"), 50, "broadcast")
    assert incident_of(**logs, worker_rank2=steps(2)).culprit.ranks == (2,)


def test_a_log_whose_lines_bear_labels_is_no_file_of_stacks(incident_of: Investigated) -> None:
    stack = 'Thread 0x00007f01 (most recent call first):\n  File "/job/train.py", line 12 in main\n'
    text = "[rank0]: building the model\n[rank1]: building the model\n" + stack
    text += "".join(f"[rank{rank}]: step {step} loss 1.0\n" for step in range(6) for rank in range(2))
    text += raised(1, "'attention_mask'", error="KeyError")
    assert not stack_dump.looks_like("train.log", text.encode())
    assert stack_dump.looks_like("stacks.log", f"[rank 0]\n{stack}".encode())
    assert incident_of(train=text).culprit.ranks == (1,)


def test_whom_an_agent_saw_end_first_began_it_as_often_as_not(incident_of: Investigated) -> None:
    incident = incident_of(console=closing(20, 40, 42, 43) + ended(20, 1, 41))
    assert incident.culprit.ranks == (1,)
    assert incident.culprit.confidence <= 0.51


def test_an_agent_tells_of_one_end_in_each_attempt_of_its_workers(incident_of: Investigated) -> None:
    first = {f"logs__job_0__attempt_0__{rank}__stdout": f"{{'loss': 0.{rank}, 'epoch': 1.0}}\n" for rank in range(2)}
    again = {f"logs__job_0__attempt_1__{rank}__stdout": "{'train_runtime': 4.2, 'epoch': 3.0}\n" for rank in range(2)}
    incident = incident_of(console=closing(54, 40) + ended(54, 1, 41, -9), **first, **again)
    assert incident.category == "none"
    assert incident.culprit.ranks == ()


def test_what_a_logger_of_json_says_of_an_exception_is_read(incident_of: Investigated) -> None:
    def line(rank: int, second: int, **rest: str) -> str:
        return json.dumps({"ts": f"2026-11-23T03:14:{second:02d}.025", "level": "info", "rank": rank, **rest}) + "\n"

    said = 'Traceback (most recent call last):\n  File "/job/train.py", line 41, in main\nRuntimeError: '
    said += GLOO + "pair.cc:537] Read error [127.0.0.1]:9359: Connection reset by peer"
    logs = {
        f"worker_rank{rank}": "".join(line(rank, step, msg=f"step={step} loss=4.01") for step in range(9))
        for rank in range(3)
    }
    for rank in (0, 1):
        logs[f"worker_rank{rank}"] += line(rank, 20, msg="worker failed", exc=said)
    incident = incident_of(**logs)
    assert incident.category == "network"
    assert incident.culprit.ranks == (2,)


def test_what_a_parent_hands_on_is_of_the_process_that_it_names(incident_of: Investigated) -> None:
    begun = "".join(f"03:35:{step:02d} Rank {rank} | epoch {step} loss 1.0\n" for step in range(6) for rank in range(3))
    handed = raised(2, TIMED_OUT.format("send"), inside="all_reduce").replace("[rank2]: ", "")
    text = begun + "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
    incident = incident_of(train=text + "-- Process 2 terminated with the following error:\n" + handed)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 2
    assert incident.culprit.ranks == (1,)


def test_what_srun_tells_in_a_file_of_its_own_explains_a_step_that_is_cancelled(incident_of: Investigated) -> None:
    lost = GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
    logs = {f"log_rank{rank}": steps(rank) + (raised(rank, lost) if rank != 2 else "") for rank in range(4)}
    logs["log_rank0"] += "slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED AT 2026-11-22T19:34:29 ***\n"
    told = "srun: error: n1: task 2: Exited with exit code 3\nsrun: error: n1: tasks 0-1,3: Terminated\n"
    assert incident_of(**logs, slurm=told).culprit.ranks == (2,)


def test_who_got_more_bytes_than_it_asked_for_is_suspected_as_the_one_that_sends_to_it_is(
    incident_of: Investigated,
) -> None:
    much = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /gloo/pair.cc:456] "
    much += "op.preamble.length <= op.nbytes. 828 vs 824. Received data size doesn't match expected size.\n"
    reset = raised(1, GLOO + "pair.cc:537] Read error [127.0.0.1]:9359: Connection reset by peer")
    logs = {"worker_rank0": steps(0), "worker_rank1": steps(1) + reset, "worker_rank2": steps(2) + much}
    told = closing(20, 41, 42, 44) + ended(20, 2, 43, -6)
    assert incident_of(**logs, worker_rank3=steps(3), console=told).culprit.ranks == (2, 3)


def test_what_ray_hands_on_is_of_the_worker_that_says_its_rank_in_its_lines(incident_of: Investigated) -> None:
    text = "".join(f"(Trainer pid={700 + rank}) worker {rank} step 1 loss 1.0\n" for rank in range(3))
    text += (
        "ray.exceptions.RayTaskError(KeyError): ray::Trainer.train() (pid=701, ip=10.0.0.2, actor_id=b5, repr=<T>)\n"
    )
    text += '  File "/job/train.py", line 11, in train\n    batch["attention_mask"]\nKeyError: \'attention_mask\'\n'
    incident = incident_of(driver=text)
    assert incident.culprit.ranks == (1,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 1


def test_where_ray_folds_lines_ranks_without_any_are_not_missing(incident_of: Investigated) -> None:
    text = "(Trainer pid=700) worker 0 step 1 loss 1.0\n(Trainer pid=702) worker 2 step 1 loss 1.0 [repeated 5x across cluster]\n"
    text += "ray.exceptions.RayTaskError(RuntimeError): ray::Trainer.train() (pid=702, ip=10.0.0.2, actor_id=b5, repr=<T>)\n"
    text += f'  File "/job/train.py", line 11, in train\nRuntimeError: {TIMED_OUT.format("recv")}\n'
    incident = incident_of(driver=text)
    assert not any("log" in reason.text or "word" in reason.text for reason in incident.culprit.reasons)
    assert 0 not in incident.culprit.ranks


def test_calls_of_other_sizes_accuse_both_ranks_alike(incident_of: Investigated) -> None:
    much = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /gloo/pair.cc:456] "
    much += "op.preamble.length <= op.nbytes. 3300 vs 4. Received data size doesn't match expected size.\n"
    begun = "".join(f"[rank{rank}]: step {step} loss 1.0\n" for step in range(6) for rank in range(3))
    incident = incident_of(console=begun + much + closing(20, 41, 42) + ended(20, 0, 40, -6))
    chances = {one.rank: one.probability for one in incident.culprit.suspects}
    assert chances[0] > 0.2
    assert chances[1] > chances.get(2, 0.0)


def test_the_rank_whose_loss_is_no_number_a_step_before_the_others_is_the_first_without_times(
    incident_of: Investigated,
) -> None:
    def lines(first: int) -> str:
        return "".join(f"step={step} loss={'nan' if step >= first else 4.0} gnorm=1.0\n" for step in range(5, 16))

    logs = {f"worker_rank{rank}": lines(14 if rank == 2 else 15) for rank in range(4)}
    assert incident_of(**logs).culprit.ranks == (2,)


def test_the_only_worker_of_ray_of_which_nothing_tells_the_rank_is_the_only_one_left(incident_of: Investigated) -> None:
    text = "".join(f"(Trainer pid={700 + rank}) worker {rank} step 1 loss 1.0\n" for rank in (0, 2))
    text += (
        "ray.exceptions.RayTaskError(KeyError): ray::Trainer.train() (pid=701, ip=10.0.0.2, actor_id=b5, repr=<T>)\n"
    )
    text += '  File "/job/train.py", line 11, in train\n    batch["attention_mask"]\nKeyError: \'attention_mask\'\n'
    assert incident_of(driver=text).culprit.ranks == (1,)


def test_who_waits_in_vain_behind_its_end_had_come_to_it_too_early(incident_of: Investigated) -> None:
    begun = "".join(f"03:35:{step:02d} Rank {rank} | epoch {step} loss 1.0\n" for step in range(6) for rank in range(3))
    begun += "03:35:06 Rank 0 | early stopping: validation loss did not improve for 5 epochs\n"
    handed = raised(0, TIMED_OUT.format("recv"), inside="barrier").replace("[rank0]: ", "")
    assert incident_of(train=begun + "-- Process 0 terminated with the following error:\n" + handed).culprit.ranks == (
        0,
    )


def test_tasks_that_srun_had_to_kill_after_one_that_failed_were_asked_to_stop(incident_of: Investigated) -> None:
    text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 14.58 GiB total capacity)\n"
    text += (
        "srun: error: n1: task 0: Exited with exit code 1\nsrun: launch/slurm: _step_signal: Terminating StepId=8.2\n"
    )
    text += "srun: error: n1: task 1: Killed\nsrun: error: n2: task 2: Killed\n"
    incident = incident_of(slurm=text)
    assert incident.culprit.ranks == (0,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 0


def test_a_task_that_aborted_while_all_others_were_stopped_is_the_one(incident_of: Investigated) -> None:
    lost = GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
    begun = "".join(f"[rank{rank}]: step {step} loss 1.0\n" for step in range(6) for rank in range(5))
    text = begun + raised(3, lost) + raised(0, lost) + "srun: error: n1: task 4: Aborted\n"
    text += "slurmstepd-n1: error: *** STEP 15.0 ON n1 CANCELLED AT 2026-11-23T04:12:20 ***\n"
    incident = incident_of(slurm=text + "srun: error: n1: tasks 0-3: Terminated\n")
    assert incident.culprit.ranks == (4,)


def test_a_thread_that_died_in_the_worker_of_ray_that_is_left_is_of_its_rank(incident_of: Investigated) -> None:
    text = "(Trainer pid=700) worker 0 step 1 loss 1.0\n(Trainer pid=701) Exception in thread Prefetcher:\n"
    text += "(Trainer pid=701) Traceback (most recent call last):\n"
    text += "(Trainer pid=701)   File \"/job/train.py\", line 49, in work\n(Trainer pid=701) KeyError: 'tokens'\n"
    text += "(Trainer pid=702) worker 2 step 5 loss 0.2 [repeated 14x across cluster]\n"
    assert incident_of(driver=text).culprit.ranks == (1,)


MUCH = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /gloo/pair.cc:456] "
    "op.preamble.length <= op.nbytes. {} vs 4. Received data size doesn't match expected size.\n"
)
RESET = GLOO + "pair.cc:537] Read error [127.0.0.1]:9359: Connection reset by peer"


@pytest.mark.parametrize(("inside", "sender"), [("all_gather", 2), ("all_gather_into_tensor", 2), ("all_reduce", 0)])
def test_in_a_gather_a_rank_sends_to_the_one_behind_it(inside: str, sender: int, incident_of: Investigated) -> None:
    text = MUCH.format(8) + "".join(raised(rank, RESET, inside=inside) for rank in (0, 1, 2))
    text += closing(20, 41, 42, 43) + ended(20, 3, 44, -6)
    incident = incident_of(console=text)
    told = {suspect.rank for suspect in incident.culprit.suspects for one in suspect.reasons if "in a ring" in one.text}
    assert told == {sender}


def test_who_sent_another_size_from_where_no_other_one_stood_made_a_call_of_its_own(incident_of: Investigated) -> None:
    text = MUCH.format(388) + raised(2, RESET, line=57) + raised(1, RESET, line=48)
    assert incident_of(console=text + closing(20, 42, 43) + ended(20, 0, 41, -6)).culprit.ranks == (1,)


def test_one_that_had_nothing_to_say_before_it_was_stopped_is_no_missing_one(incident_of: Investigated) -> None:
    much = "".join(f"[default3]:{line}\n" for line in MUCH.format(6).splitlines())
    text = much + raised(0, RESET, inside="all_gather") + raised(2, RESET, inside="all_gather")
    assert incident_of(console=text + closing(20, 41, 42, 43) + ended(20, 3, 44, -6)).culprit.ranks == (3,)


@pytest.mark.parametrize(
    "said", ["", "slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED AT 2026-11-22T19:34:29 ***\n"]
)
def test_a_task_that_was_asked_to_stop_before_any_other_failed_was_asked_by_somebody_else(
    said: str, incident_of: Investigated
) -> None:
    text = "".join(f"{rank}: {line}\n" for rank in (0, 1) for line in raised(rank, RESET).splitlines())
    text += said + "srun: error: n2: task 2: Terminated\nsrun: error: n1: tasks 0-1: Exited with exit code 1\n"
    begun = "".join(f"{rank}: step {step} loss 1.0\n" for step in range(6) for rank in range(3))
    incident = incident_of(slurm=begun + text)
    assert (incident.category == "preemption", incident.culprit.ranks == (2,)) == (True, not said)
