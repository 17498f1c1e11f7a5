"""What recording adds to an iteration, in numbers that do not depend on what else the machine does.

    python benchmarks/monitor/calls.py [--rounds 6] [--list 20]

The benchmark model trains without the recorder and then with it, with one iteration of ten in detail and with all of them.
Counted are calls of Python's own functions, calls of functions written in C, and operators of torch, in the main thread
alone; told is what an iteration has more than one without the recorder, for each kind of iteration:

- quiet: nothing is recorded in detail;
- quiet with weights: the same, with the norms of the parameters before the step, as in one of four;
- before detail: an iteration after whose step fingerprints are taken, because the next one is recorded in detail;
- in detail.

Each is the least of several iterations: what happens now and then, as a reading of the memory, is no part of it.
``--list`` names the functions that are called most, for each kind.
The model is made narrow, as what it computes does not count here.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # some versions of torch's profiler tell of each beginning and end

import gpt
import torch

from preflight.monitor.collect.session import Session
from preflight.monitor.collect.settings import Settings

NARROW = {"BATCH": 2, "BLOCK": 8, "WIDTH": 16}
WARM = 20
"""Iterations before those that are counted: first looks, imports and plans belong to these."""
EVERY = 10
KINDS = ("quiet", "quiet with weights", "before detail", "in detail")
NEVER_SAMPLED = {"detail_first": 10**9, "detail_every": 1}
SAMPLED = {"detail_first": 0, "detail_every": EVERY}


class Count(NamedTuple):
    """What happened in an iteration: calls of functions of Python and of C, and operators of torch."""

    python: int
    c: int
    operators: int


def training() -> Callable[[], None]:
    """A training of the benchmark model from its beginning: each call is an iteration."""
    torch.manual_seed(0)
    data, _, vocabulary = gpt.make_text(0)
    model = gpt.GPT(vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def iteration() -> None:
        x, y = gpt.get_batch(data)
        optimizer.zero_grad(set_to_none=True)
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return iteration


def calls(act: Callable[[], None]) -> Counter[tuple[str, str]]:
    """Do something and count the calls of functions by kind and name."""
    found: Counter[tuple[str, str]] = Counter()

    def note(frame: Any, event: str, what: Any) -> None:
        if event == "call":
            code = frame.f_code
            found["python", f"{os.path.basename(code.co_filename)}:{code.co_name}"] += 1
        elif event == "c_call":
            code = frame.f_code
            name = f"{os.path.basename(code.co_filename)}:{code.co_name} calls {getattr(what, '__name__', what)}"
            found["c", name] += 1

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def operators(act: Callable[[], None]) -> int:
    """Do something and count the operators of torch in this thread."""
    with torch.autograd.profiler.profile() as profile:
        act()
    return sum(event.name.startswith("aten::") for event in profile.function_events)


def kind_of(number: int, every: int) -> str:
    """Which kind of iteration the one of a number is."""
    if number % every == 0:
        return "in detail"
    if (number + 1) % every == 0:
        return "before detail"
    return "quiet with weights" if number % 4 == 0 else "quiet"


def count(iteration: Callable[[], None], rounds: int, every: int) -> dict[str, tuple[Count, Counter[tuple[str, str]]]]:
    """The least counts of each kind of iteration, with the calls of the one that had the fewest."""
    for _ in range(WARM):
        iteration()
    seen: dict[str, list[Counter[tuple[str, str]]]] = {}
    ran: dict[str, list[int]] = {}
    for number in range(WARM, WARM + 2 * EVERY * rounds):
        kind = kind_of(number, every)
        if number // EVERY % 2:
            ran.setdefault(kind, []).append(operators(iteration))
        else:
            seen.setdefault(kind, []).append(calls(iteration))
    found = {}
    for kind, many in seen.items():
        least = min(many, key=lambda one: one.total())
        by = [min(sum(n for (what, _), n in one.items() if what == word) for one in many) for word in ("python", "c")]
        found[kind] = Count(*by, min(ran[kind])), least
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="of ten iterations for calls and ten for operators")
    parser.add_argument("--list", type=int, default=0, help="how many functions are named")
    given = parser.parse_args()
    for name, value in NARROW.items():
        setattr(gpt, name, value)
    torch.set_num_threads(1)
    plain = count(training(), 1, EVERY)["quiet"]
    print(f"{'':30} {'Python':>8} {'C':>8} {'torch':>8}")
    print(f"{'without the recorder':30} {plain[0].python:8,} {plain[0].c:8,} {plain[0].operators:8,}")
    for mode, settings in (("sampled", SAMPLED), ("unsampled", NEVER_SAMPLED)):
        with tempfile.TemporaryDirectory() as folder:
            session = Session(Settings(folder, budget=0.0, **settings))  # type: ignore[arg-type]
            session.start()
            try:
                found = count(training(), given.rounds, settings["detail_every"])
            finally:
                session.stop()
        for kind in KINDS:
            if kind in found:
                more = Count(*(one - other for one, other in zip(found[kind][0], plain[0], strict=True)))
                print(f"{mode + ', ' + kind:30} {more.python:+8,} {more.c:+8,} {more.operators:+8,}")
                for (what, name), number in (found[kind][1] - plain[1]).most_common(given.list):
                    print(f"    {number:6,} {what:7} {name}")


if __name__ == "__main__":
    main()
