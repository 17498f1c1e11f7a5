"""The launch line and the script say different things.

## What it does
Compares the launch line, and the configuration of `accelerate` that it names, with what the script sets: number of processes, precision, accumulation, and the options that the launcher hands to each process.

## Why
`deepspeed` and `torch.distributed.launch` give every process `--local_rank=N`: a script whose parser does not know it ends before anything is loaded.
Lightning refuses to start when `devices` is not the number of processes; `init_process_group(world_size=4)` under 8 processes waits or fails.
`mp.spawn` inside each of 8 launched processes starts 64.
A precision in the script silently wins over the one in the launch line, so that the run is not the one that was asked for.

## Fix
Say each of them in one place, mostly the launch line.

## When to ignore
When the launch line that was given here is not the one that will be used.

## References
- PyTorch documentation, "torchrun (Elastic Launch)"; DeepSpeed documentation, "Launching DeepSpeed Training"
- Accelerate documentation, "The Command Line", `accelerate launch`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.queries.options import declared
from preflight.check.rule import Example, Rule
from preflight.source.values import Known, Value, plain, settle
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="launcher-disagrees-with-script",
    code="CFG016",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("distributed", "configuration"),
)

_OPTIONS = """
import argparse, deepspeed, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
deepspeed.add_config_arguments(parser)
%s
engine, *_ = deepspeed.initialize(args=args, model=torch.nn.Linear(4, 2), config="ds.json")
"""
_LIGHTNING = """
from lightning.pytorch import Trainer
def trainer(devices):
    return Trainer(max_epochs=3, accelerator="gpu", devices=devices, num_nodes=1)
trainer(4).fit(model, loader)
"""
_ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(%s)
model = accelerator.prepare(torch.nn.Linear(4, 2))
"""
_SPAWN = """
import torch, torch.multiprocessing as mp
import torch.distributed as dist
def main(rank, size):
    dist.init_process_group("nccl", init_method="tcp://localhost:23456", rank=rank, world_size=size)
mp.spawn(main, nprocs=8, args=(8,))
"""
_GROUP = """
import torch.distributed as dist
dist.init_process_group("nccl")
"""
BAD = (
    Example(_OPTIONS % "args = parser.parse_args()", launch="deepspeed --num_gpus 4 train.py"),
    Example(_LIGHTNING, launch="torchrun --nproc_per_node 8 train.py"),
    Example(
        _ACCELERATE % 'mixed_precision="fp16"',
        launch="accelerate launch --num_processes 2 --mixed_precision bf16 train.py",
    ),
    Example(_SPAWN, launch="torchrun --nproc_per_node=8 train.py"),
    Example(_GROUP, launch="python train.py"),
    Example(
        """
import argparse
from torch.distributed import init_process_group as start
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--size", type=int, default=4)
args = parser.parse_args()
start("nccl", init_method="tcp://a:1234", world_size=args.size, rank=args.local_rank)
""",
        launch="torchrun --nproc_per_node 8 train.py",
    ),
)
GOOD = (
    Example(_OPTIONS % "args, rest = parser.parse_known_args()", launch="deepspeed --num_gpus 4 train.py"),
    Example(_OPTIONS % "args = parser.parse_args()", launch="deepspeed --no_local_rank --num_gpus 4 train.py"),
    Example(
        _OPTIONS % 'parser.add_argument("--local_rank", type=int, default=-1)\nargs = parser.parse_args()',
        launch="deepspeed --num_gpus 4 train.py",
    ),
    Example(_LIGHTNING, launch="torchrun --nproc_per_node 4 train.py"),
    Example(_LIGHTNING, launch="python train.py"),
    Example(_ACCELERATE % "", launch="accelerate launch --num_processes 2 --mixed_precision bf16 train.py"),
    Example(_SPAWN, launch="python train.py"),
    Example(_GROUP, launch="torchrun --nproc_per_node 8 train.py"),
    Example(
        "import os\nos.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='localhost', MASTER_PORT='1')\n" + _GROUP,
        launch="python train.py",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the launch line with the script."""
    if context.launch.framework is None:
        return
    yield from _handed_options(context)
    yield from _processes(context)
    yield from _group_without_launcher(context)
    yield from _accelerate(context)


def _hands_local_rank(context: Context) -> bool:
    """Whether the launcher adds ``--local_rank`` to the script's own arguments.

    The deepspeed launcher does unless it is told not to. Of ``torch.distributed.launch`` only old versions do, which
    a launch line does not tell.
    """
    return context.launch.framework == "deepspeed" and not {"no-local-rank", "use-env"} & context.launch.options.keys()


def _handed_options(context: Context) -> Iterator[Finding]:
    if not _hands_local_rank(context) or context.trace.calls(".parse_known_args"):
        return
    parsed = [e for e in context.trace.calls(".parse_args") if not e.context.shadow and not e.args and not e.kwargs]
    options = list(declared(context))
    flags = {flag.lstrip("-").replace("-", "_") for o in options for flag in o.flags}
    unseen = len(options) < len(context.trace.calls(".add_argument"))
    if not parsed or not options or unseen or "local_rank" in flags or parsed[0].script is not context.reading.script:
        return
    yield _finding(
        context,
        parsed[0],
        "the deepspeed launcher gives every process --local_rank=N, which this parser refuses: the script ends at once",
        [Evidence("--local_rank declared", False)],
        'declare it: parser.add_argument("--local_rank", type=int, default=-1), or launch with --no_local_rank',
    )


def _processes(context: Context) -> Iterator[Finding]:
    """Numbers of processes in both, and processes that start processes."""
    launch, world = context.launch, context.launch.world_size
    if world is None or launch.framework in ("python", "slurm", "mpi"):
        return
    for trainer in context.reading.made("lightning_trainer"):
        devices, nodes = plain(trainer.kwargs.get("devices")), plain(trainer.kwargs.get("num_nodes"), 1)
        if isinstance(devices, (list, tuple)):
            devices = len(devices)
        if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1 or not isinstance(nodes, int):
            continue
        if (
            devices * nodes != world
            and launch.framework == "torchrun"
            and not _shadow(trainer.context)
            and trainer.cls is None
        ):
            told = (
                f"Trainer(devices={devices}, num_nodes={nodes}) expects {devices * nodes} processes, but the launch line "
                f"starts {world}: "
            )
            told += "Lightning refuses to start" if devices * nodes > 1 else "each of them trains the whole job alone"
            yield _sizes(context, trainer, told, devices * nodes, world)
    for event in context.trace.calls("torch.distributed.init_process_group"):
        number = plain(event.kwargs.get("world_size"))
        wrong = isinstance(number, int) and not isinstance(number, bool) and number > 0 and number != world
        sure = all(f.taken is True for f in event.context.frames() if f.kind == "if") and not event.context.shadow
        if isinstance(number, int) and wrong and sure and not _spawned(context):
            told = f"the process group is made for {number} ranks, but the launch line starts {world}: they wait for each other, or fail"
            yield _sizes(context, event, told, number, world)
    if world > 1:
        for event in context.trace.calls("torch.multiprocessing.spawn"):
            count = plain(event.argument(2, "nprocs"))
            if isinstance(count, int) and count > 1 and not event.context.shadow:
                told = f"each of the {world} launched processes starts {count} more: {world * count} processes for {world} GPUs"
                yield _sizes(context, event, told, count, world)


def _spawned(context: Context) -> bool:
    return bool(
        context.trace.calls("torch.multiprocessing.spawn", "torch.multiprocessing.Process", "multiprocessing.Process")
    )


def _shadow(frame: object) -> bool:
    return bool(getattr(frame, "shadow", False))


def _sizes(context: Context, place: Place, told: str, script: int, world: int) -> Finding:
    evidence = [Evidence("processes in the script", script), Evidence("processes of the launch line", world)]
    return _finding(context, place, told, evidence, "leave the number to the launcher, or start the script with python")


def _group_without_launcher(context: Context) -> Iterator[Finding]:
    """``init_process_group`` reads RANK and its kin from the environment, which plain Python does not set."""
    if context.launch.framework != "python" or "RANK" in context.launch.environment or _spawned(context):
        return
    named = any("RANK" in text for text in _environment_names(context))
    for event in context.trace.calls("torch.distributed.init_process_group"):
        method = event.argument(1, "init_method")
        env = method is None or plain(method) in (None, "env://")
        certain = isinstance(settle(method), Known) if method is not None else True
        if not env or not certain or event.context.shadow or named or {"rank", "store"} & event.kwargs.keys():
            continue
        if any(f.kind in ("if", "try") for f in event.context.frames()):
            continue
        yield _finding(
            context,
            event,
            "started by plain python, the process group finds no RANK and no WORLD_SIZE in the environment: it raises at once",
            [Evidence("launcher", "python")],
            "start the script with torchrun --nproc_per_node N",
        )


def _environment_names(context: Context) -> Iterator[str]:
    """Names that the script writes into its environment."""
    for store in context.trace.stores:
        if getattr(store.target, "name", "") == "os.environ":
            yield store.name
    for event in context.trace.calls(
        ".update", "os.environ.update", "os.environ.setdefault", ".setdefault", "os.putenv"
    ):
        for value in event.args:
            yield str(plain(value))
        yield from event.kwargs
    for event in context.trace.calls_under("mpi4py.", "submitit.", "deepspeed.", "ray.", "accelerate."):
        yield "RANK" if event else ""


def _accelerate(context: Context) -> Iterator[Finding]:
    """The script wins over the launch line, without a word."""
    launch = context.launch
    if launch.framework != "accelerate":
        return
    for made in context.reading.made("accelerator"):
        if _shadow(made.context) or made.cls is not None:
            continue
        yield from _differs(context, made, made.kwargs.get("mixed_precision"), "mixed-precision", "mixed_precision")
        steps = made.kwargs.get("gradient_accumulation_steps")
        if launch.options.get("use-deepspeed", "false").lower() == "true":
            yield from _differs(context, made, steps, "gradient-accumulation-steps", "gradient_accumulation_steps")
        return


def _differs(context: Context, place: Place, given: Value | None, option: str, name: str) -> Iterator[Finding]:
    """The value in the script, where it is fixed there, against the option of the launcher."""
    asked = context.launch.options.get(option)
    base = settle(given) if given is not None else None
    if (
        asked is None
        or not isinstance(base, Known)
        or base.value is None
        or str(base.value) == asked
        or asked == "auto"
    ):
        return
    where = f"{context.launch.config} says" if context.launch.config else "the launch line says"
    deep = option.startswith("gradient")
    winner = "DeepSpeed takes the launcher's" if deep else "the script's is used"
    yield _finding(
        context,
        place,
        f"the script says {name}={base.value!r} and {where} {asked}: {winner}",
        [Evidence(f"{name} in the script", base.value), Evidence(f"--{option.replace('-', '_')}", asked)],
        "say it in one of the two places",
        "warning",
    )


def _finding(
    context: Context, place: Place, told: str, evidence: list[Evidence], how: str, severity: Severity = "error"
) -> Finding:
    return context.finding(
        RULE,
        place,
        told,
        evidence=evidence,
        severity=severity,
        fix=Fix(
            title="let the launch line and the script agree",
            instruction=how,
            expected="the run that was asked for starts",
        ),
    )
