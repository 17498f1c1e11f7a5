"""Outputs of a network pile up on the device.

## What it does
Looks for loops over data that append what a network returned to a list that outlives the loop's pass, without moving it to the host.

## Why
Each entry stays in device memory until the list is dropped.
For class scores that is little: 50,000 samples x 1,000 classes x 4 bytes = 200 MB.
For token scores or pictures it is not: 1,000 samples x 512 tokens x 50,257 words x 4 bytes = 103 GB.

## Fix
Append `output.cpu()`, or reduce each batch first (`argmax`, a metric).

## When to ignore
When the entries are small and are concatenated on the device on purpose.

## References
- PyTorch documentation, "CUDA semantics", memory management
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.kept_graphs import graph_of, used_in_losses
from preflight.check.queries.loaders import feeding, source_loaders
from preflight.check.queries.precision import device_of
from preflight.check.queries.steps import uses_gpu
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.nodes import encloses
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Obj, Seq, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="device-tensors-collected",
    code="MEM012",
    severity="info",
    confidence="likely",
    needs=("forward", "model"),
    layer="D",
    tags=("memory", "growth"),
)

_MODEL = """
import torch
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda")
model = nn.Linear(10, 50257).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(a, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _MODEL
    + """
logits = []
with torch.no_grad():
    for x, y in DataLoader(b, batch_size=8):
        logits.append(model(x.to(device)))
scores = torch.cat(logits)
""",
    _MODEL
    + """
@torch.inference_mode()
def collect(net, loader):
    outputs, labels = [], []
    for x, y in loader:
        out = net(x)
        outputs.append(out.softmax(-1))
        labels.append(y)
    return torch.cat(outputs)
collect(model, DataLoader(b, batch_size=8))
""",
    _MODEL
    + """
class Predictor:
    def __init__(self, net):
        self.net = net
        self.kept = []
    def run(self, batches):
        with torch.no_grad():
            for batch in batches:
                output = self.net(batch)
                self.kept.append(output.detach().float())
Predictor(model).run(DataLoader(b, batch_size=8))
""",
)
GOOD = (
    _MODEL
    + """
logits, best, losses = [], [], []
with torch.no_grad():
    for x, y in DataLoader(b, batch_size=8):
        out = model(x.to(device))
        logits.append(out.cpu())
        best.append(out.argmax(-1))
        losses.append(nn.functional.cross_entropy(out, y))
""",
    _MODEL
    + """
host = torch.device("cpu")
criterion = nn.CrossEntropyLoss()
first, second, losses = [], [], []
with torch.no_grad():
    for x, y in DataLoader(b, batch_size=8):
        out = model(x.to(device))
        first.append(out.to(device="cpu"))
        second.append(out.to(host))
        losses.append(criterion(out, y))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs = []
for x, y in data:
    outputs.append(model(x))
""",
)

# Operations that keep the size of what a network returned.
_SAME_SIZE = frozenset(
    (
        ".detach",
        ".float",
        ".half",
        ".softmax",
        ".log_softmax",
        ".sigmoid",
        ".clone",
        ".contiguous",
        ".squeeze",
        ".view",
        ".to",
        ".exp",
    )
)
_SAME_FUNCTIONS = frozenset(
    (
        "torch.softmax",
        "torch.sigmoid",
        "torch.nn.functional.softmax",
        "torch.nn.functional.log_softmax",
        "torch.log_softmax",
    )
)


def check(context: Context) -> Iterator[Finding]:
    """Find lists of whole outputs that stay on the device."""
    if not uses_gpu(context):
        return
    feeds = feeding(context)
    used = used_in_losses(context)
    for event in context.trace.calls(".append"):
        frame = feeds.innermost(event)
        if frame is None or not event.args or event.context.shadow or not isinstance(_receiver(event), Seq):
            continue
        if _made_inside(event, frame) or id(_receiver(event)) in used or not _over_data(context, frame):
            continue
        value = event.args[0]
        call = _output(context, value)
        if call is None or graph_of(context, value) is not None:
            continue
        yield context.finding(
            RULE,
            event,
            "the whole output of the network for each batch is kept on the device until the list is dropped",
            evidence=[Evidence("moved to the host", False)],
            related=[(call, "the output that is kept")],
            fix=Fix(
                title="move what is collected to the host, or reduce it first",
                instruction="append output.cpu(), or only what is needed of it (argmax, a metric)",
                expected="device memory no longer grows with the number of batches",
            ),
        )


def _receiver(event: Event) -> Value | None:
    return settle(event.receiver) if event.receiver is not None else None


def _over_data(context: Context, frame: Frame) -> bool:
    return bool(source_loaders(context, frame.value))


def _output(context: Context, value: Value) -> Obj | None:
    """The call of a network whose whole output a value is."""
    for _ in range(8):
        base = next((o for o in options_of(value) if isinstance(o, Obj)), None)
        if base is None:
            return None
        if base.name == "()" and is_module(base.receiver):
            return None if context.roles.of(base.receiver) == "criterion" else base
        if base.kind == "attr" and base.name == "logits" and base.receiver is not None:
            value = base.receiver
        elif base.name in _SAME_SIZE and base.receiver is not None:
            if base.name == ".to" and device_of(base.argument(0, "device")) == "cpu":
                return None
            value = base.receiver
        elif base.name in _SAME_FUNCTIONS and base.args:
            value = base.args[0]
        else:
            return None
    return None


def _made_inside(event: Event, frame: Frame) -> bool:
    holder = _receiver(event)
    if holder is None or holder.site is None or frame.node is None:
        return True
    return encloses(frame.node, holder.site.node)
