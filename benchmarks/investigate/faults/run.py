"""Make runs that fail in known ways, with real torchrun agents and gloo, and keep what they leave behind as small files.

    python benchmarks/investigate/faults/run.py [-o FOLDER] [CASE...]

Every case of cases.toml becomes FOLDER/CASE/run (what a person would hand over: consoles, worker logs, error.json, Flight
Recorder dumps, stacks, kernel messages) and FOLDER/CASE/truth.json (what was done, to whom, and what is true of it).
Needs torch. Two faults are real only where this process may make them so (a control group with little memory, a small
tmpfs: both want root) and are imitated otherwise; ``how`` in truth.json says which it was.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tidy import Tidy

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parents[2] / "tests" / "investigate" / "data" / "faults"
LONGEST = 150.0
MEMORY = Path("/sys/fs/cgroup/memory")
TOLD = ("fault", "culprit", "culprit_nodes", "category", "also", "symptom", "state", "also_state", "scope", "attempts")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def memory_group(name: str, size: int) -> Any:
    """A control group (version 1) that may hold so many bytes, or None where none can be made."""
    group = MEMORY / name
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(size))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(20):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


@contextmanager
def small_folder(at: Path) -> Any:
    """A file system of 16 KiB, or None where none can be mounted."""
    at.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", at], capture_output=True).returncode:
        yield None
        return
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=False, capture_output=True)


def agent(
    case: dict[str, Any], node: int, work: Path, port: int, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start the agent of a node; what it prints goes to its console.log."""
    nodes = case.get("nodes", 1)
    folder = work / f"node{node}"
    folder.mkdir()
    line = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nnodes={nodes}",
        f"--nproc-per-node={case.get('world', 4) // nodes}",
    ]
    line += [f"--max-restarts={case.get('restarts', 0)}", "--monitor-interval=0.2", "--log-dir", str(folder / "logs")]
    if case["fault"] == "port-in-use":
        line += ["--rdzv-backend=static", "--master-addr=127.0.0.1", f"--master-port={port}", "--node-rank=0"]
    else:
        line += ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=job"]
        line += ["--rdzv-conf=join_timeout=60,last_call_timeout=1,close_timeout=5", "--local-addr=localhost"]
        line += [f"--node-rank={node}"]
    line += {"files": ["--redirects=3"], "both": ["--tee=3"], "console": []}[case["layout"]]
    line += [str(HERE / "train.py"), f"--out={work / 'checkpoints'}", *case.get("arguments", [])]
    if case["fault"]:
        line += [f"--fault={case['fault']}", f"--at={case.get('at', 12)}"]
        line += [f"--ranks={','.join(map(str, case['ranks']))}"] if case.get("ranks") else []
    more = case.get("of_node", {}).get(f"node{node}", {})
    with (folder / "console.log").open("wb") as console:
        return subprocess.Popen(
            line, stdout=console, stderr=subprocess.STDOUT, env={**environment, **more}, start_new_session=True
        )


def workers_of(work: Path) -> dict[int, int]:
    """The processes of this run that are no agents, by rank."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
            variables = dict(
                part.split(b"=", 1) for part in (place / "environ").read_bytes().split(b"\0") if b"=" in part
            )
        except OSError:
            continue
        if str(work).encode() in line and b"torch.distributed.run" not in line and b"RANK" in variables:
            found[int(place.name)] = int(variables[b"RANK"])
    return found


def end_all(work: Path, agents: list[subprocess.Popen[bytes]]) -> None:
    for one in agents:
        with suppress(ProcessLookupError):
            one.kill()
        one.wait()
    for pid in workers_of(work):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stacks(work: Path, deadline: float) -> None:
    """Wait until the ranks have stopped to log, and write where each of them is."""
    logs, size, since = work / "node0" / "logs", -1, time.monotonic()
    while time.monotonic() < deadline:
        now = sum(path.stat().st_size for path in logs.rglob("*.log"))
        grown, size = now != size, now
        since = time.monotonic() if grown or "step 11/" not in console_of(logs) else since
        if time.monotonic() - since > 3:
            break
        time.sleep(0.5)
    tool = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    folder = work / "stacks"
    folder.mkdir()
    for pid, rank in sorted(workers_of(work).items(), key=lambda item: item[1]):
        done = subprocess.run([tool, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=60)
        (folder / f"rank{rank}.txt").write_text(done.stdout + done.stderr)


def console_of(logs: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in logs.rglob("stderr.log"))


def kernel_lines(since: float, pids: set[int]) -> str:
    """What the kernel said of processes that it ended for want of memory since then."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True)
    lines = []
    for line in done.stdout.splitlines():
        stamp = line[1:].split("]", 1)[0].strip()
        words = ("oom", "Memory cgroup", "Killed process", "memory: usage")
        if stamp.replace(".", "").isdigit() and float(stamp) >= since and any(word in line for word in words):
            lines.append(line)
    return "\n".join(lines) + "\n" if lines else ""


def make(name: str, case: dict[str, Any], target: Path) -> dict[str, Any]:
    """Make one run and keep it."""
    case = {"fault": "", "layout": "files", **case}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TORCH", "OMP", "PYTHON"))}
    environment |= {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "WARNING"}
    environment |= case.get("environment", {})
    booted = time.clock_gettime(time.CLOCK_BOOTTIME)
    how = "real"
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, ExitStack() as held:
        work = Path(folder) / name
        for part in (work, work / "checkpoints", work / "flight"):
            part.mkdir()
        if case.get("flight"):
            environment |= {"TORCH_FR_BUFFER_SIZE": "8", "TORCH_FR_DUMP_TEMP_FILE": str(work / "flight" / "rank_")}
        port = free_port()
        if case["fault"] == "port-in-use":
            taken = held.enter_context(socket.socket())
            taken.bind(("0.0.0.0", port))
            taken.listen()
        if case["fault"] == "host-oom":
            group = held.enter_context(memory_group(f"faults-{os.getpid()}", 160 << 20))
            environment |= {"FAULT_MEMORY_GROUP": str(group)} if group else {}
            how = "killed by the kernel, in a control group of 160 MiB" if group else "imitated by SIGKILL"
        if case["fault"] == "full-disk":
            small = held.enter_context(small_folder(work / "disk"))
            environment["FAULT_SMALL_FOLDER"] = str(small or "")
            how = "a file system of 16 KiB" if small else "not made: no file system could be mounted"
        began = time.time()
        agents = [agent(case, node, work, port, environment) for node in range(case.get("nodes", 1))]
        pids = {one.pid for one in agents}
        try:
            if case.get("stacks"):
                stacks(work, time.monotonic() + LONGEST)
            else:
                for one in agents:
                    with suppress(subprocess.TimeoutExpired):
                        one.wait(max(1.0, began + LONGEST - time.time()))
                settle(work)
            codes = {f"node{node}": one.poll() for node, one in enumerate(agents)}
        finally:
            end_all(work, agents)
        if case["fault"] == "host-oom" and (told := kernel_lines(booted, pids)):
            (work / "dmesg.txt").write_text(told)
        truth = {"name": name,
            "culprit": [], **{key: case[key] for key in TOLD if key in case}, "how": how,
                 "struck": case.get("ranks", []), "world_size": case.get("world", 4), "nodes": case.get("nodes", 1),
                 "layout": case["layout"], "agent_exit_codes": codes}  # fmt: skip
        shutil.rmtree(target / name, ignore_errors=True)
        Tidy(work, HERE, case.get("ahead", {})).keep(target / name / "run")
    (target / name / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    return {"seconds": time.time() - began, "codes": codes}


def settle(work: Path) -> None:
    """Workers whose agent is dead may live a little longer: wait for their last words."""
    until = time.monotonic() + 15
    while time.monotonic() < until and workers_of(work):
        time.sleep(0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=DEFAULT)
    parser.add_argument("--cases-file", type=Path, default=HERE / "cases.toml", help="what the cases are read from")
    given = parser.parse_args()
    cases = tomllib.loads(given.cases_file.read_text())
    unknown = set(given.cases) - set(cases)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    for name in given.cases or cases:
        made = make(name, cases[name], given.output)
        size = sum(path.stat().st_size for path in (given.output / name).rglob("*") if path.is_file())
        print(f"{name:28} {made['seconds']:6.1f} s  {size / 1000:6.1f} kB  exit codes {made['codes']}", flush=True)


if __name__ == "__main__":
    main()
