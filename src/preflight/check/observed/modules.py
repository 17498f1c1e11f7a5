"""What a dry run saw of modules that are out of place: in no network, or in one that never calls them."""

from __future__ import annotations

from preflight.check.observed.refused import Refused, Tensor
from preflight.check.observed.run import Run
from preflight.vocabulary.seen import ModuleSeen, ParameterSeen

SMALL = 0.02
"""A part of a network that is a smaller share of it, and takes no part, is mostly a by-product of a library's model."""


def kept_apart(run: Run) -> dict[str, list[ModuleSeen]]:
    """Modules in no network that learn and that no optimizer has, by the plain container that holds them."""
    found: dict[str, list[ModuleSeen]] = {}
    for module in run.profile.modules:
        learns = module.learning and module.graph_calls and not module.optimized and not module.loaded
        if module.network is None and module.keeper and learns:
            found.setdefault(module.keeper, []).append(module)
    return found


def never_called(run: Run) -> list[tuple[int, ModuleSeen, list[ParameterSeen]]]:
    """Modules of trained networks that no call reached, with their parameters, which an optimizer steps on in vain.

    Of modules inside of each other the outermost is given. A module whose parameters get gradients is used without being
    called.
    """
    found = []
    for network in sorted(run.trained) if run.complete else ():
        parameters, modules = run.parameters(network), run.modules(network)
        called = [m.path for m in modules if m.calls]
        done: list[str] = []
        for module in modules:
            inner = f"{module.path}."
            if module.calls or module.path == module.kind or any(module.path.startswith(f"{path}.") for path in done):
                continue
            inside = [p for p in parameters if p.name.startswith(inner)]
            if inside and all(idle(run, p) for p in inside) and not any(path.startswith(inner) for path in called):
                found.append((network, module, inside))
                done.append(module.path)
    return found


def idle(run: Run, parameter: ParameterSeen) -> bool:
    """Whether an optimizer steps on a parameter that never gets a gradient."""
    stepped = any(run.optimizers[at].steps > 1 for at in parameter.optimizers)
    return parameter.trainable and stepped and not parameter.gradients


def left_attribute(refused: Refused) -> Tensor | None:
    """The tensor on the CPU that a module keeps as a plain attribute, where the statement that was refused names one."""
    known = {f"self.{tensor['name']}" for tensor in refused.own}
    for tensor in refused.named:
        name = tensor["name"]
        if tensor["device"] == "cpu" and name.startswith("self.") and name.count(".") == 1 and name not in known:
            return tensor
    return None
