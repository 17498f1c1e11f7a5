"""What holds a step back: by how much it would shrink if one thing were a tenth better."""

from __future__ import annotations

import msgspec

from preflight.cost.ledger import ledger_if_known
from preflight.cost.machine import Coefficients, Machine, machine_of
from preflight.cost.networks.spread import known_step
from preflight.plan.changes import layout_of
from preflight.plan.request import Request
from preflight.vocabulary.plan import Driver

BETTER = 1.1


def drivers(request: Request, coefficients: Coefficients | None = None) -> tuple[Driver, ...]:
    """Return what the step depends on, the strongest first: the share of the step that each stands for.

    The share is the elasticity: a rate that is 1 % higher shortens the step by so many per cent of 1 %. Shares of
    what is done one after the other add up to one.
    """
    model, run, parallel = request.model, request.run, layout_of(request)
    machine = machine_of(request.cluster, run, coefficients or request.coefficients)
    gpu = request.cluster.gpu
    first, last = (ledger_if_known(model, run, parallel, gpu, stage) for stage in (0, parallel.pp - 1))
    if machine is None or first is None or last is None or request.measured is not None:
        return ()

    def seconds(machine: Machine) -> float:
        step = known_step(model, run, parallel, machine, first, last)
        return step.total if step is not None else 0.0

    now = seconds(machine)
    if not now:
        return ()
    found = []
    for name, better in _variants(machine).items():
        # d ln T / d ln rate from a finite difference: (T' / T - 1) / (1 / 1.1 - 1).
        share = (seconds(better) / now - 1) / (1 / BETTER - 1)
        if share > 0.005:
            found.append(Driver(name=name, share=share))
    return tuple(sorted(found, key=lambda driver: -driver.share))


def _variants(machine: Machine) -> dict[str, Machine]:
    """Return the machine with one thing a tenth better, by its name."""
    given = machine.coefficients

    def rate(**fields: float) -> Machine:
        return msgspec.structs.replace(machine, **fields)

    def coefficient(**fields: float) -> Machine:
        return msgspec.structs.replace(machine, coefficients=msgspec.structs.replace(given, **fields))

    return {
        "matrix products": rate(matmul=machine.matmul * BETTER),
        "attention": rate(attention=machine.attention * BETTER),
        "memory bandwidth": rate(bandwidth=machine.bandwidth * BETTER),
        "the link inside a node": rate(fabric=machine.fabric * BETTER),
        "the network between nodes": rate(network=machine.network * BETTER),
        "latency of collectives": coefficient(
            fabric_latency=given.fabric_latency / BETTER, network_latency=given.network_latency / BETTER
        ),
        "launching kernels": coefficient(
            host=given.host / BETTER, kernel=given.kernel / BETTER, step=given.step / BETTER
        ),
    }


def in_words(found: tuple[Driver, ...], bubble: float) -> str | None:
    """Return the bottleneck in one sentence.

    Args:
        found: The drivers, the strongest first.
        bubble: The share of the step in which stages wait for each other.
    """
    if not found:
        return None
    top = found[0]
    said = f"{top.name}: 10 % better would shorten the step by {top.share * (1 - 1 / BETTER):.1%}".replace("%", " %")
    said = said.replace("  ", " ")
    if bubble >= 0.1:
        said += f"; pipeline stages wait for {bubble:.0%} of it".replace("%", " %")
    return said
