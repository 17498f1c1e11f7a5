from __future__ import annotations

import json

import pytest

from preflight.source.dumps import stack_dump
from preflight.source.dumps.opening import format_of, read_dump
from preflight.vocabulary.log import Frame, LogFile, Stack, Who

NOBODY = Who()
PYSPY = """Process 4711: python train.py --steps 10
Python v3.11.7 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:83)
    train_step (train.py:12)
        Arguments:
            step: 3
    <module> (train.py:40)
Thread 4720 (active+gil): "pin_memory"
    select (selectors.py:416)
    0x7f3a12 (libc.so.6)
"""
FAULT = """Timeout (0:00:30)!
Thread 0x00007fe73ad856c0 [loader] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007fe73b7f9b80 (most recent call first):
  File "/job/train.py", line 2 in load
  File "/job/train.py", line ??? in <module>
"""
PYSTACK = """Traceback for thread 991 (python) [Has the GIL,Garbage collecting] (most recent call last):
    (C) File "???", line 0, in _start (/usr/bin/python3)
    (Python) File "/job/train.py", line 30, in <module>
        main()
    (Python) File "/job/train.py", line 9, in step
        loss.backward()
    (C) File "../src/wait.c", line 77, in sem_wait (/lib/libc.so.6)

Traceback for thread 992 (python) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 320, in wait
"""
GDB = """[New LWP 13067]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
0x00007fe73b0ed545 in ?? () from /lib/libc.so.6

Thread 2 (Thread 0x7fe73ad856c0 (LWP 13067) "pt_autograd_0"):
#0  0x00007fe73b0ed545 in pthread_cond_wait@@GLIBC_2.3.2 () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007fe73b515ada in c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long>) () from /opt/libtorch_cuda.so

Thread 1 (Thread 0x7fe73b7f9b80 (LWP 13062) "python"):
#0  0x00007fe73b0ed545 in __GI___clock_nanosleep (clock_id=clock_id@entry=1, req=0x7ffd1be45c80) at ../sysdeps/clock_nanosleep.c:48
#1  main (argc=1) at prog.c:7
"""


def stacks(text: str, name: str = "stacks.txt", who: Who = NOBODY) -> tuple[Stack, ...]:
    content = text.encode()
    assert format_of(name, content[:8192]) is stack_dump
    part = read_dump(stack_dump, content, LogFile(index=3, path=name, kind="stacks", who=who))
    assert part.problem is None
    return part.stacks


def test_py_spy_names_threads_states_and_places() -> None:
    main, pin = stacks(PYSPY, "rank_5.txt")
    assert main.who == Who(rank=5, pid=4711)
    assert (main.main, main.state, main.thread) == (True, "idle", "MainThread")
    assert main.frames[0] == Frame("torch/distributed/distributed_c10d.py", 2806, "all_reduce")
    assert [frame.function for frame in main.frames] == ["all_reduce", "wrapper", "train_step", "<module>"]
    assert (pin.main, pin.state) == (False, "active+gil")
    assert pin.frames[1] == Frame("libc.so.6", None, "0x7f3a12")


def test_py_spy_writes_json() -> None:
    dump = [
        {"pid": 4, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": 4, "active": True, "owns_gil": True,
         "frames": [{"name": "f", "filename": "/job/train.py", "line": 3}]},
    ]  # fmt: skip
    (main,) = stacks(json.dumps(dump), who=Who(rank=2))
    assert (main.who, main.state, main.frames) == (Who(rank=2, pid=4), "active+gil", (Frame("/job/train.py", 3, "f"),))


def test_faulthandler_s_main_thread_is_the_one_that_begins_in_the_program() -> None:
    loader, main = stacks(FAULT, who=Who(rank=1))
    assert (loader.main, main.main) == (False, True)
    assert loader.thread == "loader"
    assert main.frames == (Frame("/job/train.py", 2, "load"), Frame("/job/train.py", None, "<module>"))


def test_pystack_is_turned_round() -> None:
    main, other = stacks(PYSTACK, who=Who(rank=1))
    assert [frame.function for frame in main.frames] == ["sem_wait", "step", "<module>", "_start"]
    assert main.frames[3].path == "/usr/bin/python3"
    assert (main.main, other.main) == (True, False)


def test_pystack_tells_of_a_core_file_before_its_stacks() -> None:
    core = "Using executable found in the core file: /usr/bin/python\n\nCore file information:\nstate: R zombie: True niceness: 0\npid: 1234 ppid: 1200 sid: 1100\n\n"
    main, _ = stacks(core + PYSTACK, who=Who(rank=1))
    assert main.who == Who(rank=1, pid=1234)


def test_gdb_greets_before_it_comes_to_the_stacks() -> None:
    other, main = stacks(GDB, who=Who(rank=1))
    assert other.thread == "pt_autograd_0"
    assert other.frames[1].function.startswith("c10d::ProcessGroupNCCL::WorkNCCL::wait")
    assert main.main
    assert main.frames == (
        Frame("../sysdeps/clock_nanosleep.c", 48, "__GI___clock_nanosleep"),
        Frame("prog.c", 7, "main"),
    )


@pytest.mark.parametrize(
    "heading", ["==> rank_{} <==", "Rank {}: http://node1:4000", "# stacks of rank {}", "=== Rank {} ==="]
)
def test_one_file_may_hold_the_stacks_of_many_ranks(heading: str) -> None:
    text = "\n".join(f"{heading.format(rank)}\n{FAULT}" for rank in (0, 7, 12))
    found = stacks(text)
    assert [stack.who.rank for stack in found] == [0, 0, 7, 7, 12, 12]


def test_processes_follow_each_other() -> None:
    found = stacks(PYSPY + PYSPY.replace("4711", "4712"))
    assert [stack.who.pid for stack in found if stack.main] == [4711, 4712]


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 2.0\n" * 20 + FAULT,
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nValueError: no\n',
        "Thread pool started with 8 workers\n",
        "Process 12 rows\n",
        '[{"step": 1, "loss": 2.0}]',
    ],
)
def test_a_log_is_no_file_of_stacks(text: str) -> None:
    assert format_of("rank_0.log", text.encode()) is not stack_dump


@pytest.mark.parametrize("cut", range(0, len(PYSPY), 37))
def test_a_file_that_is_cut_off_gives_what_is_there(cut: int) -> None:
    part = read_dump(stack_dump, PYSPY[:cut].encode(), LogFile(index=0, path="x", kind="stacks"))
    assert len(part.stacks) <= 2
    assert part.problem is not None or part.stacks


def test_junk_gives_a_problem() -> None:
    part = read_dump(stack_dump, b"\xff\x00Process 1: \xfe\n" * 50, LogFile(index=0, path="x", kind="stacks"))
    assert part.problem == "no stack could be read"
