"""Clocks: the time of this node as UTC, and whether something keeps it right."""

from __future__ import annotations

import time

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return the time, the zone, and what chrony or the system's service says of its error."""
    found: dict[str, Scalar] = {"clock.unix": round(time.time(), 3), "clock.zone": time.strftime("%Z")}
    try:
        for line in ask(["chronyc", "tracking"], min(wanted.seconds, 5.0)).splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "System time":
                found["clock.offset_s"] = float(value.split()[0]) * (-1 if "slow" in value else 1)
            elif name.strip() == "Leap status":
                found["clock.synchronised"] = value.strip() == "Normal"
        return found
    except (NoAnswer, ValueError):
        pass
    try:
        said = ask(["timedatectl", "show", "--property=NTPSynchronized", "--value"], min(wanted.seconds, 5.0)).strip()
        found["clock.synchronised"] = said == "yes"
    except NoAnswer:
        found["clock.problem"] = "neither chronyc nor timedatectl says whether the clock is kept right"
    return found
