"""A checkpoint holds the averaged weights twice, and the trained ones not at all.

## What it does
Looks for a dictionary that is saved with the state of one and the same network under two keys, one of them named as an average (`ema`, `average`, `shadow`, `swa`) and the other one not.

## Why
A resumed run takes the average for the weights that were trained last, beside the moments of an optimizer that belong to other weights: it goes on from elsewhere, and each time it is resumed it does so again.

## Fix
Save the state of the trained network under its own key.

## When to ignore
When the file is only evaluated, and both keys are kept for older readers.

## References
- PyTorch documentation, "Saving and Loading a General Checkpoint for Inference and/or Resuming Training"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Dict, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-saved-as-weights",
    code="EMA005",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("average", "checkpoint"),
)

_TRAIN = """
import copy, torch
from torch import nn
model = nn.Linear(10, 2)
ema = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    for a, p in zip(ema.parameters(), model.parameters()):
        a.data.lerp_(p.data, 0.01)
"""
BAD = (
    f"""{_TRAIN}
torch.save({{"model": ema.state_dict(), "ema": ema.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
    f"""{_TRAIN}
weights = model.state_dict()
weights = ema.state_dict()
state = {{"weights": weights, "optim": optimizer.state_dict()}}
state["average"] = ema.state_dict()
torch.save(state, "last.pt")
""",
    f"""{_TRAIN}
def save(net, shadow, path):
    torch.save(dict(net=shadow.state_dict(), shadow=shadow.state_dict(), optimizer=optimizer.state_dict()), path)
save(model, ema, "last.pt")
""",
)
GOOD = (
    f"""{_TRAIN}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--average", action="store_true")
ema = ema if parser.parse_args().average else model
torch.save({{"model": model.state_dict(), "ema": ema.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
    f"""{_TRAIN}
torch.save({{"model": model.state_dict(), "ema": ema.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
    f"""{_TRAIN}
torch.save({{"model": ema.state_dict()}}, "best.pt")
""",
    f"""{_TRAIN}
torch.save({{"model": ema.state_dict(), "ema": ema.state_dict()}}, "best.pt")
""",
    f"""{_TRAIN}
torch.save({{"model": model.state_dict(), "last": model.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
    """
import copy, torch
from torch import nn
averaging = False
model = nn.Linear(10, 2)
ema = copy.deepcopy(model) if averaging else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.save({"model": model.state_dict(), "ema": ema.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
""",
)
_AVERAGE = re.compile(r"(^|_)(ema|average|averaged|avg|shadow|swa)(_|$)", re.IGNORECASE)


def check(context: Context) -> Iterator[Finding]:
    """Look for the state of one network under two names, beside that of an optimizer."""
    for save in context.trace.calls("torch.save"):
        held = _states(save)
        optimizers = [key for key, owner in held.items() if context.roles.of(owner) == "optimizer"]
        networks = {key: owner for key, owner in held.items() if key not in optimizers}
        for key, owner in networks.items():
            twice = [other for other, two in networks.items() if two is owner and other != key]
            named = next((other for other in twice if _AVERAGE.search(other)), None)
            if any(holding_of(context.reading, one).covers(owner) for one in context.reading.made("optimizer")):
                continue  # there is no average, and both keys hold what is trained
            if named is None or _AVERAGE.search(key) or not optimizers or len(set(map(id, networks.values()))) > 1:
                continue
            yield context.finding(
                RULE,
                save,
                f"{key!r} and {named!r} hold the state of one network, the average: the weights that the optimizer trains are not saved",
                evidence=[Evidence("networks in the file", 1), Evidence("keys of networks", len(networks))],
                fix=Fix(
                    title="save the trained network, too",
                    instruction=f"put the state of the network that the optimizer steps under {key!r}",
                    expected="a resumed run goes on from the weights that it had",
                ),
            )
            break


def _states(save: Event) -> dict[str, Obj]:
    """By key, of what a dictionary that is saved holds the state."""
    given = save.argument(0, "obj")
    held = settle(given) if given is not None else None
    if not isinstance(held, Dict):
        return {}
    found: dict[str, Obj] = {}
    for key, value in held.entries.items():
        owner = _owner(value)
        if isinstance(key, str) and owner is not None:
            found[key] = owner
    return found


def _owner(value: Value) -> Obj | None:
    base = settle(value)
    if not isinstance(base, Obj) or base.name != ".state_dict" or base.receiver is None:
        return None
    owner = settle(base.receiver)
    return owner if isinstance(owner, Obj) else None
