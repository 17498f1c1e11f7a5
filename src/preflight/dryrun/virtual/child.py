"""The process in which the script runs.

It is started as a file, under the person's own interpreter:

    python .../preflight/dryrun/virtual/child.py JOB.json

and writes what it saw to the path that the job names. With ``--serve`` in the place of the job, it reads paths of jobs from
its input and forks for each (``forks``). It finds the package ``preflight`` by its own place, so that the
interpreter's environment need not have it, and imports nothing of it but ``preflight.dryrun.virtual``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import time
import traceback
from typing import Any


def _find_preflight() -> None:
    """Make ``preflight`` importable from the folder that this file lies in, and nothing else of its surroundings."""
    if "preflight" in sys.modules:
        return
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = importlib.util.spec_from_file_location(
        "preflight", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["preflight"] = module
    spec.loader.exec_module(module)


def main(path: str) -> int:
    """Run a job; return the exit status.

    Args:
        path: The job, a JSON file: ``script``, ``root``, ``arguments``, ``steps``, ``card``, ``capacity``, ``scratch``,
            ``result``, ``memory``.
    """
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    _find_preflight()
    from preflight.dryrun.virtual.guard import namespaces

    closed = namespaces.enter(job["scratch"])
    began = time.monotonic()
    if sys.version_info < (3, 10):  # noqa: UP036 - the interpreter is the person's own
        return _write(job, {"outcome": "python too old", "python": sys.version.split()[0]})
    try:
        import torch
    except ImportError as error:
        return _write(job, {"outcome": "no torch", "reason": str(error), "python": sys.executable})
    from preflight.dryrun.virtual import private_names

    lacking = private_names.missing()
    if lacking or private_names.release(torch.__version__) < private_names.release(private_names.OLDEST):
        return _write(job, {"outcome": "torch too old", "torch": torch.__version__, "missing": lacking})
    if "plan" in job:
        from preflight.dryrun.virtual.probe.run import run as probe

        _limit(job.get("memory"))

        return _write(job, {**probe(job), "seconds": time.monotonic() - began})
    from preflight.dryrun.virtual.run import run

    job["closed"] = closed
    seen: dict[str, Any] = run(job)
    return _write(job, {**seen, "torch": torch.__version__, "seconds": time.monotonic() - began})


def serve() -> int:
    """Import what every job needs, then fork for each; an interpreter that cannot run a job says so job by job."""
    _find_preflight()
    # No tensor is made here: a thread of PyTorch's would not survive the fork.
    with contextlib.suppress(ImportError):
        import torch._dynamo
        import torch.distributed.fsdp
        import torch.utils.data  # noqa: F401

        from preflight.dryrun.virtual import private_names

        if not private_names.missing():
            from preflight.dryrun.virtual import run  # noqa: F401
    from preflight.dryrun.virtual.guard import forks

    return forks.serve(main)


def _limit(memory: int | None) -> None:
    """Let the process have only so much memory."""
    if memory is not None:
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _write(job: dict[str, Any], result: dict[str, Any]) -> int:
    # One write of a whole file that nobody reads before this process has ended.
    with open(job["result"], "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    try:
        status = serve() if sys.argv[1] == "--serve" else main(sys.argv[1])
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the script's own must not keep the process.
    os._exit(status)
