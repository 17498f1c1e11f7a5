"""Measures how long after a failure ``preflight investigate --follow`` tells it, while the logs of many ranks grow.

python benchmarks/investigate/follow_lag.py --files 64
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

from preflight.investigate.follow import follow
from preflight.vocabulary.report import Report

FAILURE = (
    "Traceback (most recent call last):\n"
    '  File "/opt/job/train.py", line 9, in <module>\n'
    "    y = model(x)\n"
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
)


def main() -> None:
    """Let logs grow, let one rank fail, and print the seconds until it was told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=12.0, help="of growth before the failure")
    given = parser.parse_args()
    written = 0.0
    told: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"rank_{rank}.log" for rank in range(given.files)]
        for log in logs:
            log.touch()

        def train() -> None:
            nonlocal written
            began = time.time()
            step = 0
            while time.time() - began < given.seconds:
                step += 1
                stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
                for log in logs:
                    with log.open("a") as stream:
                        stream.write(
                            f"{stamp},{int(time.time() * 1000) % 1000:03d} INFO step {step} loss {2 / step:.4f}\n"
                        )
                time.sleep(0.25)
            with logs[given.files // 2].open("a") as stream:
                stream.write(FAILURE)
            written = time.time()

        def alarm(report: Report) -> None:
            told.append(time.time())
            print(report.incident.headline if report.incident is not None else report.verdict)

        writer = threading.Thread(target=train)
        writer.start()
        follow([folder], alarm=alarm, quiet=2.0)
        writer.join()
    print(f"{given.files} files: told {told[0] - written:.2f} s after it was written")


if __name__ == "__main__":
    main()
