"""How many faulted ranks the Flight Recorder's votes find, in recorded sets of dumps.

    python benchmarks/investigate/flights.py FOLDER [--times N]

FOLDER holds one folder per set, with a dump of each rank and ``fault_injection.log`` (``Fault ranks: [12, 14]``), such as
tests/attribution/unit/fr_traces of NVIDIA/nvidia-resiliency-ext. A faulted rank counts as found when it is among as many of the
top ranks as there were faults; a set has a false top vote when its first rank is none of the faulted ones.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from preflight.investigate.flight.votes import votes_of_flights
from preflight.source.dumps import flight_recorder
from preflight.source.dumps.opening import format_of
from preflight.vocabulary.log import Flight, LogFile


def flights_of(folder: Path) -> list[Flight]:
    flights: list[Flight] = []
    for index, path in enumerate(sorted(folder.iterdir())):
        content = path.read_bytes()
        if format_of(path.name, content) is flight_recorder:
            flights += flight_recorder.read(content, LogFile(index=index, path=str(path), kind="flight")).flights
    return flights


def main() -> None:
    found = faults = wrong = 0
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        log = folder / "fault_injection.log"
        faulted = {int(word) for word in re.findall(r"\d+", log.read_text().splitlines()[0])}
        began = time.perf_counter()
        flights = flights_of(folder)
        evidence = votes_of_flights(flights)
        seconds = time.perf_counter() - began
        first = [one.rank for one in evidence.ranks[: len(faulted)]]
        found += len(faulted & set(first))
        faults += len(faulted)
        wrong += not first or first[0] not in faulted
        print(
            f"{folder.name}: faulted {sorted(faulted)}, voted {first}, {len(flights)} dumps in {seconds * 1000:.0f} ms"
        )
    print(f"{found} of {faults} faulted ranks, {wrong} false top votes")


if __name__ == "__main__":
    main()
