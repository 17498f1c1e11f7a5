"""The process in which the script runs.

It is started as a file, under the person's own interpreter:

    python .../preflight/dryrun/virtual/child.py JOB.json

and writes what it saw to the path that the job names. It finds the package ``preflight`` by its own place, so that the
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
    _limit(job.get("memory"))
    began = time.monotonic()
    try:
        import torch
    except ImportError as error:
        return _write(job, {"outcome": "no torch", "reason": str(error), "python": sys.executable})
    from preflight.dryrun.virtual import private

    lacking = private.missing()
    if lacking:
        return _write(job, {"outcome": "torch too old", "torch": torch.__version__, "missing": lacking})
    from preflight.dryrun.virtual.run import run

    seen: dict[str, Any] = run(job)
    return _write(job, {**seen, "torch": torch.__version__, "seconds": time.monotonic() - began})


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
        status = main(sys.argv[1])
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the script's own must not keep the process.
    os._exit(status)
