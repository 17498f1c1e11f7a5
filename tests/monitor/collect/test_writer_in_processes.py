"""The writer where its process ends, dies, or has children."""

from __future__ import annotations

from pathlib import Path

import pytest

from .writing import column, posix, program, read


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("", 0),
        ("sys.exit(3)\n", 3),
        ("raise ValueError('the program failed')\n", 1),
        ("threading.Thread(target=lambda: (time.sleep(0.2), trace.put('call', call(10)))).start()\n", 0),
    ],
)
def test_the_end_of_the_interpreter_writes_what_waits(tmp_path: Path, leave: str, code: int) -> None:
    text = "trace = Writer('rank-00000.7.trace', interval=3600)\nfor q in range(10): trace.put('call', call(q))\n"
    done = program(tmp_path, text + leave)
    assert done.returncode == code
    assert bool(done.stderr) == (code == 1)
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(11 if "Thread" in leave else 10))


@pytest.mark.parametrize("leave", ["os._exit(5)", "os.kill(os.getpid(), signal.SIGTERM if os.name == 'nt' else 9)"])
def test_a_process_that_dies_leaves_what_was_written(tmp_path: Path, leave: str) -> None:
    done = program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace', interval=0.01)\n"
        "for q in range(10): trace.put('call', call(q))\n"
        "while trace.written_bytes == 0: time.sleep(0.01)\n"
        "for q in range(10, 200_000): trace.put('call', call(q))\n" + leave,
    )
    assert done.returncode != 0
    blocks, reader = read(tmp_path / "rank-00000.7.trace")
    got = [q for block in blocks for q in block.tables["call"]["q"]]
    assert got == list(range(len(got)))
    assert len(got) >= 10
    assert len(reader.damage) <= 1


@posix
def test_a_forked_child_leaves_the_file_alone(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace', interval=0.001)\n"
        "children = []\n"
        "for q in range(2000):\n"
        "    trace.put('call', call(q))\n"
        "    if q % 100 == 0:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            trace.put('call', call(-1)); trace.flush(); trace.close()\n"
        "            own = Writer(f'worker-00000.{os.getpid()}.trace')\n"
        "            own.put('call', call(q))\n"
        "            sys.exit(0)\n"
        "        children.append(child)\n"
        "print({os.waitpid(child, 0)[1] for child in children}, trace.close())\n",
    )
    assert (done.stdout, done.stderr) == ("{0} True\n", "")  # and no warning that threads run beside a fork
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(2000))
    workers = sorted(tmp_path.glob("worker-*.trace"))
    assert sorted(q for path in workers for q in column(path, "call", "q")) == list(range(0, 2000, 100))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_write_files_of_their_own(tmp_path: Path, method: str) -> None:
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    done = program(
        tmp_path,
        "import multiprocessing\n"
        "def work(n):\n"
        "    own = Writer(f'worker-00000.{n}.trace', interval=3600)\n"
        "    own.put('call', call(n))\n"
        "if __name__ == '__main__':\n"
        "    trace = Writer('rank-00000.7.trace', interval=0.001)\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    children = [context.Process(target=work, args=(n,)) for n in range(2)]\n"
        "    for child in children: child.start()\n"
        "    for child in children: child.join()\n"
        "    trace.put('call', call(9))\n"
        "    print([child.exitcode for child in children])\n",
    )
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")
    assert [column(tmp_path / f"worker-00000.{n}.trace", "call", "q") for n in range(2)] == [[0], [1]]
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == [9]
