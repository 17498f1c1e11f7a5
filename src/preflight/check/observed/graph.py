"""What a dry run saw of the graph: which networks were called with it before an error, and which parts it does not reach."""

from __future__ import annotations

from preflight.check.observed.modules import idle
from preflight.check.observed.run import Run
from preflight.vocabulary.seen import ModuleSeen, Observation, ParameterSeen

NO_GRAPH = "does not require grad and does not have a grad_fn"
"""What PyTorch says of a loss that nothing leads back from."""


def calls_before_error(run: Run) -> list[Observation]:
    """The calls of networks since the last backward pass or step that succeeded."""
    last = max((item.order for item in run.seen("gradients", "optimizer step")), default=0)
    kinds = {module.kind for module in run.profile.modules if module.network is not None}
    return [item for item in run.seen("call") if item.order > last and item.data["kind"] in kinds]


def cut_off(run: Run) -> list[tuple[int, ModuleSeen, list[ParameterSeen]]]:
    """Modules that are called with gradients on, whose output requires one, and none of whose parameters ever gets one.

    Only parameters that an optimizer steps on count, and of modules inside of each other the outermost is given.
    """
    if not run.complete or not run.trained:
        return []
    found = []
    for network in sorted({p.network for p in run.profile.parameters if p.network is not None}):
        parameters = run.parameters(network)
        top = network not in run.trained
        done: list[str] = []
        for module in run.modules(network):
            whole = module.path == module.kind
            inside = [p for p in parameters if whole or p.name.startswith(f"{module.path}.")]
            if not inside or (whole and not top) or any(module.path.startswith(f"{path}.") for path in done):
                continue
            if top and done:
                continue
            if all(idle(run, p) for p in inside) and module.graph_calls and module.gradient:
                found.append((network, module, inside))
                done.append(module.path)
    return found
