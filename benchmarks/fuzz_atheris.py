"""Look for scripts that the evaluator does not survive, with coverage as the guide (needs ``pip install atheris``).

Run it for as long as you like, outside continuous integration:

    python benchmarks/fuzz_atheris.py CORPUS_FOLDER -max_total_time=3600 -timeout=30 -rss_limit_mb=2048

The folder may hold scripts to start from; what is found new is added to it.
Anything but the tool's own errors, a note that a library model failed, and any input above libFuzzer's limits on time
and memory, is a crash, and is kept as a file that can be given again.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["preflight.source"]):
    from preflight.errors import PreflightError
    from preflight.source.layers import Network
    from preflight.source.reading import read
    from preflight.source.script import parse

STEPS = 30_000


def one_input(data: bytes) -> None:
    """Follow the bytes as a script, or as a notebook when they begin like one."""
    name = "fuzzed.ipynb" if data[:1] == b"{" else "fuzzed.py"
    try:
        reading = read(parse(data, name), max_steps=STEPS)
    except PreflightError:
        return
    for model in reading.models:
        Network(reading, model)
    failed = [note for note in reading.trace.notes if "was not understood" in note]
    if failed:
        raise AssertionError(failed[0])


def main() -> None:
    """Hand the arguments to libFuzzer."""
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
