"""Reports as the commands make them: the material of the tests of all formats."""

from __future__ import annotations

from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Edit, Evidence, Finding, Fix, Location, Related
from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate, Oom, TimelinePoint
from preflight.vocabulary.quantity import GIB, Interval
from preflight.vocabulary.report import (
    SCHEMA,
    Efficiency,
    EfficiencyPart,
    NotEvaluated,
    Recommendation,
    Report,
    Tool,
)
from preflight.vocabulary.rule_info import RuleInfo

TOOL = Tool("preflight", "0.1.0")

SOURCE = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-xl").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
loader = DataLoader(dataset, batch_size=1)
losses = []
for step, batch in enumerate(loader):
\tloss = model(**batch).loss
\tloss.backward()
\toptimizer.step()
\toptimizer.zero_grad()
\tlosses.append(loss)
"""
SOURCES = {"train.py": SOURCE}

PARTS = MemoryBreakdown(
    model_parameters=5.8 * GIB,
    gradients=5.8 * GIB,
    optimizer_states=11.6 * GIB,
    activations=29.0 * GIB,
    logits_and_loss=6.2 * GIB,
    workspace=0.3 * GIB,
    fragmentation=2.0 * GIB,
    context=0.5 * GIB,
)


def _timeline() -> tuple[TimelinePoint, ...]:
    gib = [(0, "init", 5.8), (0, "forward", 41.0), (0, "backward", 47.1), (0, "optimizer", 23.2), (1, "forward", 52.6)]
    return tuple(
        TimelinePoint(step=step, phase=phase, allocated_bytes=size * GIB, reserved_bytes=(size + 2) * GIB)  # type: ignore[arg-type]
        for step, phase, size in gib
    )


MEMORY = MemoryEstimate(
    peak_bytes=Interval(55.0 * GIB, 58.7 * GIB, 63.1 * GIB),
    reserved_bytes=Interval(57.0 * GIB, 60.7 * GIB, 66.0 * GIB),
    device_bytes=Interval(57.5 * GIB, 61.2 * GIB, 66.5 * GIB),
    capacity_bytes=int(39.4 * GIB),
    fits="no",
    p_fit=0.01,
    oom=Oom(
        phase="forward", step=0, arithmetic="5.8 GiB of parameters + 35.2 GiB of activations = 41.0 GiB > 39.4 GiB"
    ),
    breakdown=PARTS,
    timeline=_timeline(),
    how=("model_parameters: 1,557,611,200 parameters x 4 bytes (fp32)",),
)

MEMORY_ERROR = Finding(
    rule="memory-exceeds-capacity",
    code="MEM002",
    severity="error",
    confidence="certain",
    message="Memory overflow: the peak of 61.2 GiB exceeds the 39.4 GiB of the GPU",
    location=Location(path="train.py", line=11, column=2, end_line=11, end_column=17),
    related=(Related(Location(path="train.py", line=5, column=9), "the model is built in fp32 here"),),
    evidence=(
        Evidence(
            "peak", 61.2 * GIB, "bytes", "derived", "1,557,611,200 x 16 bytes + 29.0 GiB of activations + 8.5 GiB"
        ),
        Evidence("capacity", int(39.4 * GIB), "bytes", "published"),
    ),
    fix=Fix(
        title="Train in bf16 with gradient checkpointing",
        instruction="model.gradient_checkpointing_enable()\n"
        "and wrap the forward pass in torch.autocast('cuda', torch.bfloat16)",
        expected="activations 29.0 GiB -> 2.1 GiB",
    ),
)

KEPT_LOSS = Finding(
    rule="loss-kept-with-graph",
    code="MEM007",
    severity="error",
    confidence="likely",
    message="The list 'losses' keeps every loss with its graph, so that memory grows at each step",
    location=Location(path="train.py", line=14, column=2, end_line=14, end_column=21),
    fix=Fix(
        title="Append loss.item()",
        safe=True,
        edits=(Edit("train.py", 14, 16, 14, 20, "loss.item()"),),
        expected="no growth per step",
    ),
)

WORKERS = Finding(
    rule="dataloader-without-workers",
    code="EFF002",
    severity="warning",
    confidence="certain",
    message="The DataLoader loads in the training process, so that the GPU waits for every batch",
    location=Location(path="train.py", line=7, column=10, end_line=7, end_column=43),
    evidence=(Evidence("num_workers", 0, None, "published"),),
    fix=Fix(
        title="Pass num_workers=4",
        edits=(Edit("train.py", 7, 42, 7, 42, ", num_workers=4"),),
    ),
)

NOTE = Finding(
    rule="seed-not-set",
    code="REP001",
    severity="info",
    confidence="possible",
    message="No seed is set; two runs will differ",
    location=Location(path="train.py", line=1, column=1),
)

NO_GO = Report(
    schema=SCHEMA,
    command="check",
    tool=TOOL,
    verdict="NO-GO",
    inputs={"path": "train.py", "gpu": "NVIDIA A100 40GB", "gpus": 1},
    findings=(MEMORY_ERROR, KEPT_LOSS, WORKERS, NOTE),
    facts={
        "framework": Fact("pytorch", Location(path="train.py", line=1, column=1), "import"),
        "model.parameters": Fact(1557611200, Location(path="train.py", line=5, column=9), "catalog gpt2-xl"),
        "optimizer.lr": Fact(0.1, Location(path="train.py", line=6, column=51), "literal"),
        "batch.micro": Fact(1, Location(path="train.py", line=7, column=31), "literal"),
        "sequence_length": Fact(reason="the dataset is not built in this file"),
    },
    memory=MEMORY,
    efficiency=Efficiency(
        42,
        "Significant inefficiencies",
        (
            EfficiencyPart("precision", 30, 0.4, "fp32 without TF32: 19.5 of 312 TFLOP/s"),
            EfficiencyPart("data loading", 20, 0.3, "0 workers"),
            EfficiencyPart("batch size", 80, 0.3, "1 x 1024 tokens"),
        ),
    ),
    recommendations=(
        Recommendation(
            "critical", "Enable gradient checkpointing", "peak 61.2 GiB -> 34.3 GiB", "about a third more compute"
        ),
        Recommendation("high", "Train under autocast in bf16", "matrix products up to 16 times faster"),
    ),
    not_evaluated=(
        NotEvaluated("batch-too-large-for-learning-rate", "CFG011", "sequence_length is not known"),
        NotEvaluated("padding-waste", "DAT004", "sequence_length is not known"),
    ),
)

GO = Report(
    schema=SCHEMA,
    command="check",
    tool=TOOL,
    verdict="GO",
    inputs={"path": "good.py"},
    facts={"framework": Fact("pytorch", None, "import")},
    memory=MemoryEstimate(
        peak_bytes=Interval(1.5 * GIB, 1.75 * GIB, 2.0 * GIB),
        breakdown=MemoryBreakdown(model_parameters=0.5 * GIB, activations=1.25 * GIB),
        reason="no GPU was named",
    ),
)

UNKNOWN = Report(
    schema=SCHEMA,
    command="check",
    tool=TOOL,
    verdict="UNKNOWN",
    inputs={"path": "keras_fit.py"},
    memory=MemoryEstimate(reason="TensorFlow scripts are recognised but not evaluated"),
    notes=("This script trains with TensorFlow, which is recognised but not evaluated",),
)

SEVERAL = Report(
    schema=SCHEMA,
    command="check",
    tool=TOOL,
    verdict="NO-GO",
    inputs={"paths": ["good.py", "keras_fit.py", "train.py"]},
    findings=NO_GO.findings,
    scripts=(GO, UNKNOWN, NO_GO),
)

_HOSTILE_TEXT = (
    "</script><script>alert(1)</script> \x1b[31mred\x1b]0;title\x07 \u202eevil\u202c "
    "::error::x\r\n::warning::y %0A ]]> | `@all` <b>&amp;"
)
HOSTILE = Report(
    schema=SCHEMA,
    command="check",
    tool=TOOL,
    verdict="NO-GO",
    inputs={"path": "a,b:c\x1b[2J<img src=x onerror=alert(1)>.py", "gpu": _HOSTILE_TEXT},
    findings=(
        Finding(
            rule="script-<i>name",
            code="X\n::error::1",
            severity="error",
            confidence="certain",
            message=_HOSTILE_TEXT + "\n=HYPERLINK(1)",
            location=Location(path="a,b:c\x1b[2J<img src=x onerror=alert(1)>.py", line=1, column=1),
            related=(Related(Location(path="\ud800.py", line=2), _HOSTILE_TEXT),),
            evidence=(Evidence(_HOSTILE_TEXT, _HOSTILE_TEXT, _HOSTILE_TEXT, "derived", _HOSTILE_TEXT),),
            fix=Fix(_HOSTILE_TEXT, False, (Edit("a.py", 1, 1, 1, 2, "\x00<script>"),), _HOSTILE_TEXT, _HOSTILE_TEXT),
        ),
    ),
    facts={_HOSTILE_TEXT: Fact(_HOSTILE_TEXT, None, _HOSTILE_TEXT), "n": Fact(None, None, None, _HOSTILE_TEXT)},
    memory=MemoryEstimate(reason=_HOSTILE_TEXT),
    efficiency=Efficiency(1.0, _HOSTILE_TEXT, (EfficiencyPart(_HOSTILE_TEXT, 2.0, 1.0, _HOSTILE_TEXT),)),
    recommendations=(Recommendation("low", _HOSTILE_TEXT, _HOSTILE_TEXT, _HOSTILE_TEXT),),
    not_evaluated=(NotEvaluated(_HOSTILE_TEXT, _HOSTILE_TEXT, _HOSTILE_TEXT),),
    notes=(_HOSTILE_TEXT,),
)
HOSTILE_SOURCES = {"a,b:c\x1b[2J<img src=x onerror=alert(1)>.py": "x = '<script>alert(1)</script>\x1b[31m'\n"}

RULES = (
    RuleInfo(
        name="memory-exceeds-capacity",
        code="MEM002",
        title="The peak does not fit on the GPU",
        severity="error",
        confidence="certain",
        page="# memory-exceeds-capacity\n\nThe run needs more memory than the GPU has.\n",
        tags=("memory",),
    ),
    RuleInfo(
        name="dataloader-without-workers",
        code="EFF002",
        title="The DataLoader loads in the training process",
        severity="warning",
        confidence="certain",
        page="# dataloader-without-workers\n\nBatches are made while the GPU waits.\n",
        tags=("efficiency", "data"),
    ),
)

ALL = {"no_go": NO_GO, "go": GO, "unknown": UNKNOWN, "several": SEVERAL, "hostile": HOSTILE}
