"""The model is never put back into train mode.

## What it does
Looks for a loop that trains a model and, in the same loop, puts it into eval mode (often inside a validation function), without any `train()` in that loop.
It also reports a pretrained model whose weights the optimizer holds and that is never put into train mode: `from_pretrained` returns it in eval mode.

## Why
After the first `eval()`, dropout is off and batch norm uses its running statistics for the rest of the loop.
Training goes on without an error: regularisation is gone, and batch-norm statistics are frozen at the values of the first validation.

## Fix
Call `model.train()` at the start of each epoch, or after each evaluation.

## When to ignore
When training in eval mode is wanted, as for fine-tuning with frozen batch-norm statistics.

## References
- PyTorch documentation of Module.train and Module.eval
- transformers documentation of from_pretrained: the model is set in evaluation mode by default
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.given_models import given_models, may_be_undone
from preflight.check.queries.modes import (
    concerns,
    handed_out,
    has_modes,
    holds,
    leaves,
    models_of,
    modes_of,
    network_modes,
    pretrained_modes,
    reaches,
    uses_of,
)
from preflight.check.queries.tensors import grad_off
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop, same_guards
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="eval-mode-left-on",
    code="MOD001",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="D",
    tags=("modes",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def validate(net, loader):
    net.eval()
    with torch.no_grad():
        return sum(nn.functional.cross_entropy(net(x), y).item() for x, y in loader)
model.train()
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(validate(model, test_loader))
""",
    """
import argparse, torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(8, 2), nn.BatchNorm1d(2)
    def forward(self, x):
        return self.bn(self.fc(x))
class Trainer:
    def __init__(self, every):
        self.net, self.every = Net().cuda(), every
        self.opt = torch.optim.AdamW(self.net.parameters())
    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        for x, y in val_loader:
            self.net(x)
    def run(self):
        for epoch in range(3):
            self.net.train()
            for step, (x, y) in enumerate(train_loader):
                loss = nn.functional.cross_entropy(self.net(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                if step % self.every == 0:
                    self.evaluate()
p = argparse.ArgumentParser()
p.add_argument("--every", type=int, default=100)
Trainer(p.parse_args().every).run()
""",
    """
import torch
from transformers import AutoModelForCausalLM as Auto
lm = Auto.from_pretrained("gpt2")
opt = torch.optim.AdamW(lm.parameters(), lr=1e-5)
for batch in loader:
    loss = lm(input_ids=batch["ids"], labels=batch["ids"]).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
    """
import torch
from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification
def evaluate(model, batches, accelerator):
    model.eval()
    for batch in batches:
        with torch.no_grad():
            accelerator.gather(model(**batch).logits)
def main():
    accelerator = Accelerator()
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model, optimizer, batches, held_out = accelerator.prepare(model, optimizer, train_loader, val_loader)
    model.train()
    for epoch in range(3):
        for batch in batches:
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
        evaluate(model, held_out, accelerator)
main()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(10):
    for phase in ("train", "valid"):
        if phase == "train":
            print("epoch", epoch)
        else:
            net.eval()
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(net(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
""",
    """
import torch
def fit(net, loader, held_out, optimizer, epochs):
    net.train()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                print((net(x).argmax(1) == y).float().mean().item())
""",
)

GOOD = (
    """
import torch
def fit(net, loader, held_out, optimizer, epochs, every):
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print(torch.nn.functional.cross_entropy(net(held_out), held_out.y).item())
def fit_parallel(network, loader, held_out, optimizer, epochs):
    inner = network.module
    for epoch in range(epochs):
        network.train()
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(inner(x), y).backward()
            optimizer.step()
        inner.eval()
        print(inner(held_out).argmax(1))
def fit_elsewhere(net, loader, held_out, optimizer, prepare):
    for x, y in loader:
        prepare(net)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        net.eval()
        print(net(held_out).argmax(1))
def fit_features(net, head, loader, optimizer):
    for x, y in loader:
        net.eval()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(head(net(x)), y).backward()
        optimizer.step()
def fit_with_teacher(net, teacher, loader, optimizer):
    for x, y in loader:
        teacher.eval()
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), wanted).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(10):
    for phase in ("train", "valid"):
        if phase == "train":
            net.train()
        else:
            net.eval()
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(net(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
for epoch in range(10):
    for phase in ("train", "valid"):
        net.train(phase == "train")
        for x, y in loaders[phase]:
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(net(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
""",
    """
import torch
from torch import nn
class Probe(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 2))
    def forward(self, x):
        return self.head(self.body(x))
model = Probe(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
model.body.eval()
optimizer = torch.optim.AdamW(model.head.parameters(), lr=0.001)
def evaluate(net, batches):
    net.eval()
    with torch.no_grad():
        return [net(x) for x, _ in batches]
for epoch in range(10):
    model.head.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    evaluate(model, test_loader)
""",
    """
import torch
from transformers import LlamaForCausalLM
model = LlamaForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(input_ids=batch["ids"], labels=batch["ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def validate(net, loader):
    was_training = net.training
    net.eval()
    with torch.no_grad():
        result = sum(nn.functional.cross_entropy(net(x), y).item() for x, y in loader)
    net.train(was_training)
    return result
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(validate(model, test_loader))
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for phase in ["train", "val"]:
        if phase == "train":
            model.train()
        else:
            model.eval()
        for x, y in loaders[phase]:
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(model(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    model.eval()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), nn.Linear(8, 2)
    def forward(self, x):
        features = self.body(x)
        return {"output": self.head(features), "features": features}
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    model.eval()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x)["output"], y).backward()
        optimizer.step()
""",
    """
import argparse, copy, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--average", action="store_true", default=True)
options = parser.parse_args()
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
average = copy.deepcopy(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def test(net, loader):
    with torch.no_grad():
        for x, y in loader:
            net.eval()
            print(net(x).argmax(1).eq(y).sum())
model.train()
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if options.average:
        tested = average
    else:
        tested = model
    test(tested, test_loader)
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    def train(self, mode=True):
        super().train(mode)
        self.body[1].eval()
    def forward(self, x):
        return self.body(x)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def validate(net, loader):
    net.eval()
    with torch.no_grad():
        print(sum(nn.functional.cross_entropy(net(x), y).item() for x, y in loader))
    net.train()
model.train()
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    validate(model, test_loader)
""",
    """
import torch
from torch import nn
nets = {"encoder": nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)), "decoder": nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 8))}
optimizer = torch.optim.SGD([*nets["encoder"].parameters(), *nets["decoder"].parameters()], lr=0.1)
for epoch in range(10):
    _ = [nets[key].eval() for key in nets]
    nets["encoder"].train()
    for x, y in train_loader:
        with torch.no_grad():
            before = nets["decoder"](nets["encoder"](x))
        optimizer.zero_grad()
        nn.functional.mse_loss(nets["decoder"](nets["encoder"](x)), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
encoder = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
encoder.load_state_dict(torch.load("encoder.pt"))
probe = nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
def train_one_epoch(encoder, probe, loader):
    encoder.eval()
    probe.train()
    for x, y in loader:
        with torch.no_grad():
            features = encoder(x)
        optimizer.zero_grad()
        nn.functional.cross_entropy(probe(features), y).backward()
        optimizer.step()
for epoch in range(10):
    train_one_epoch(encoder, probe, train_loader)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look, for each model that is trained, for an eval in a training loop without a train in it."""
    for model in context.reading.models:
        modal = has_modes(model)
        if modal is None:
            modal = pretrained_modes(context, model)
        if modal is None:
            modal = network_modes(context, model)
        if modal is False or any(concerns(e, model) for e in context.trace.calls(".fit")):
            continue
        for loop in context.reading.loops:
            found = _left_on(context, model, loop)
            if found is not None:
                yield _report(context, model, loop, found[0], found[1], modal)
                break
        else:
            yield from _never_on(context, model, modal)
    for loop in context.reading.loops:
        for given in given_models(context, loop):
            found = _left_on(context, given, loop)
            if found is not None and not may_be_undone(context, given, *found):
                yield _report(context, given, loop, found[0], found[1], None)
                break


def _left_on(context: Context, model: Value, loop: TrainingLoop) -> tuple[Event, Frame] | None:
    backward = loop.backwards[0]
    trained = loop.behind_losses
    uses = uses_of(context, model)
    if not any(reaches(e.result, trained) and not grad_off(e.context) for e in uses):
        return None  # nor where it only makes the inputs of what is trained, and keeps its weights
    modes = modes_of(context, model)
    # An eval right before the training forward is a choice; one before an evaluation is a switch that was forgotten.
    if any(
        backward.context.within(around) and _before_training(mode.event, uses, trained)
        for mode in modes
        if mode.training is False and not mode.event.context.shadow and concerns(mode.event, model)
        if same_guards(mode.event, backward)  # not in a pass that cannot train, as of another phase
        for around in mode.event.context.loops()[:1]
    ):
        return None
    for mode in modes:
        event = mode.event
        if mode.training is not False or event.context.shadow or not concerns(event, model):
            continue
        if len(models_of(event.receiver)) > 1:
            continue  # one of several networks: an average of the weights, each of a dictionary in turn
        common = next((f for f in event.context.loops() if backward.context.within(f)), None)
        if common is None or leaves(event, common) or handed_out(context, model, common):
            continue
        if _chosen(context, event, common) or _parts_trained(context, model, common):
            continue
        if any(m.training is not False and m.event.context.within(common) for m in modes):
            continue
        return event, common
    return None


def _before_training(event: Event, uses: list[Event], trained: Set[int]) -> bool:
    """Whether what comes next after a switch is a forward pass that trains."""
    after = next((e for e in uses if e.number > event.number), None)
    return after is not None and reaches(after.result, trained) and not grad_off(after.context)


def _chosen(context: Context, event: Event, common: Frame) -> bool:
    """Whether one call puts several networks into eval mode and some of them are put back: which ones, is a choice."""
    together = [e for e in context.trace.calls(".eval") if e.node is event.node]
    return len(together) > 1 and any(
        concerns(other, model)
        for other in context.trace.calls(".train")
        if other.number > event.number and other.context.within(common)
        for e in together
        for model in models_of(e.receiver)
    )


def _parts_trained(context: Context, model: Value, common: Frame) -> bool:
    """Whether the loop puts parts of the model into train mode: that the rest of it stays in eval mode is a choice."""
    return any(
        event.context.within(common) and any(holds(model, part) for part in models_of(event.receiver))
        for event in context.trace.calls(".train")
    )


def _report(
    context: Context, model: Value, loop: TrainingLoop, event: Event, common: Frame, modal: bool | None
) -> Finding:
    line = getattr(common.node, "lineno", None)
    what = "holds dropout or batch norm" if modal else "may hold dropout or batch norm"
    return context.finding(
        RULE,
        event,
        f"eval() in the loop at line {line} is never undone: from here on the model, which {what}, trains in eval mode",
        evidence=[
            Evidence("calls of train() inside the loop", 0),
            Evidence("layers that depend on the mode", "found" if modal else "not known"),
        ],
        related=[(loop.backwards[0], "the model is trained here, in the same loop")],
        confidence="likely" if modal else "possible",
        severity="error" if modal else "warning",
        fix=Fix(
            title="return to train mode",
            instruction="call train() on the model at the start of each pass of this loop, or after the evaluation",
            expected="dropout and batch norm work as in the first epoch",
        ),
    )


def _never_on(context: Context, model: Obj, modal: bool | None) -> Iterator[Finding]:
    """A pretrained model comes in eval mode."""
    if not (model.name.startswith("transformers.") and model.name.endswith(".from_pretrained")):
        return
    if any(m.training is not False for m in modes_of(context, model)) or _adapted(context, model):
        return
    for loop in context.reading.loops:
        trained = loop.behind_losses
        used = [e for e in uses_of(context, model) if reaches(e.result, trained)]
        if not used or grad_off(used[0].context) or used[0].context.shadow:
            continue
        if any(context.roles.of(s.receiver) == "engine" for s in loop.steps) or handed_out(context, model, loop.frame):
            continue
        yield context.finding(
            RULE,
            used[0],
            "the model is trained in eval mode: from_pretrained returns it so, and nothing calls train(), so its dropout is off",
            evidence=[Evidence("made by", model.name), Evidence("calls of train()", 0)],
            related=[(model, "the model is loaded here")],
            severity="warning",
            # Most language models of today come without dropout.
            confidence="possible" if modal is None and "CausalLM" in model.name else "likely",
            fix=Fix(
                title="put the model into train mode",
                instruction="call train() on the model before the training loop",
                expected="dropout is active while training",
            ),
        )
        return


def _adapted(context: Context, model: Obj) -> bool:
    """Whether a parent whose mode may be set holds the model: peft, a wrapper, a module of the project."""

    def given(value: Value) -> bool:
        return value is model

    return any(
        any(given(a) for a in (*e.args, *e.kwargs.values()))
        for e in context.trace.events
        if e.inlined or e.name.startswith(("peft.", "trl.", "deepspeed."))
    ) and any(e.name == ".train" for e in context.trace.calls(".train"))
