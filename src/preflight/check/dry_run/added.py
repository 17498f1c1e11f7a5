"""What a dry run on the virtual GPU adds to a check: how it is made, and what the script did in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preflight.check.dry_run import growth
from preflight.check.dry_run.end import early_end, in_short
from preflight.check.dry_run.memory import context_of, room_of
from preflight.check.observed import probed
from preflight.check.observed.run import Run
from preflight.cost.workspace import COMMUNICATOR
from preflight.dryrun import ranks
from preflight.source.launcher import Launch
from preflight.source.ranks import makes_group
from preflight.source.reading import Reading
from preflight.source.script import Script
from preflight.source.values import plain
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Confidence, Evidence, Finding, Fix, sort_key
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.work import Work

if TYPE_CHECKING:
    from preflight.check.asked import Device, Options
    from preflight.check.context import Context
    from preflight.dryrun.launch import Job


def run(script: Script, reading: Reading, options: Options, device: Device, launch: Launch) -> Profile:
    """Run a script on the virtual GPU, as the first of the processes that the launch line starts.

    Raises:
        UsageError: No GPU was named, the script is not a file, or the interpreter cannot do it.
        InputError: The run gave no answer.
    """
    from preflight.dryrun.launch import dry_run
    from preflight.dryrun.ranks import with_others

    until = time.monotonic() + options.time_limit
    alone = needs_launcher(reading) and launch.framework is None and (options.gpus or 1) == 1
    if alone:
        launch = msgspec.structs.replace(launch, framework="torchrun", gpus_per_node=1)
    job = job_of(script, reading, options, device, launch)
    launch = launched(launch, options.gpus)
    profile = with_others(job, dry_run(job), launch.variables(), launch.gpus_per_node or job.devices, until)
    if alone:
        told = "no launch line was given: started as torchrun --nproc_per_node 1 starts it; --gpus or --launch say otherwise"
        profile = msgspec.structs.replace(profile, assumptions=(told, *profile.assumptions))
    if not options.probe:
        return profile
    from preflight.dryrun.probe import probe

    left = max(0.0, until - time.monotonic())
    return msgspec.structs.replace(profile, probe=probe(msgspec.structs.replace(job, seconds=left), profile, dry_run))


def job_of(script: Script, reading: Reading, options: Options, device: Device, launch: Launch) -> Job:
    """Return what is to be run.

    Raises:
        UsageError: No GPU was named, or the script is not a file.
    """
    from preflight.dryrun.batch import parse_assumptions, parse_batch
    from preflight.dryrun.launch import Job
    from preflight.errors import UsageError

    if device.gpu is None or device.capacity_bytes is None:
        raise UsageError("--dry-run needs a GPU to simulate", "name it: --gpu h100")
    if script.path.endswith(".ipynb"):
        raise UsageError(f"{script.path} is a notebook, and --dry-run runs scripts", "jupyter nbconvert --to script")
    if script.file is None or script.path.startswith("<"):
        raise UsageError(f"{script.path} cannot be run: --dry-run takes a script that is a file")
    return Job(
        script=str(script.file),
        root=str(reading.project.root or Path(script.file).parent),
        arguments=tuple(_arguments(script, options, launch)),
        gpu=msgspec.structs.replace(device.gpu, context_bytes=int(context_of(device.gpu).mid)),
        capacity_bytes=device.capacity_bytes,
        steps=options.steps,
        python=options.python,
        seconds=options.time_limit,
        devices=launch.gpus_per_node or options.gpus or 1,
        environment=first_of(launch, options.gpus),
        batch=parse_batch(options.batch) if options.batch is not None else (),
        assumed=parse_assumptions(options.assume),
        snapshot=options.memory_snapshot,
        communicator_bytes=int(COMMUNICATOR.mid),
    )


def _arguments(script: Script, options: Options, launch: Launch) -> tuple[str, ...]:
    given = options.arguments if options.arguments is not None else launch.arguments_of(script.path)
    return given or ()


def needs_launcher(reading: Reading) -> bool:
    """Whether a script only runs where a launcher started it: on its own way it joins a group that the environment describes."""
    return any(
        event.name == "torch.distributed.init_process_group"
        and not event.context.shadow
        and not any(f.kind == "except" or (f.kind == "if" and f.taken is not True) for f in event.context.frames())
        and not {"rank", "world_size", "store"} & event.kwargs.keys()
        and plain(event.argument(1, "init_method"), "env://") == "env://"
        for event in makes_group(reading.trace)
    )


def launched(launch: Launch, gpus: int | None) -> Launch:
    """Return the launch line; where there is none, that of as many processes as there are GPUs."""
    if gpus is not None and gpus > 1 and launch.world_size is None:
        return msgspec.structs.replace(launch, framework="torchrun", gpus_per_node=gpus)
    return launch


def first_of(launch: Launch, gpus: int | None) -> dict[str, str]:
    """Return the environment of the first process.

    Args:
        launch: The launch line.
        gpus: Number of GPUs, where the line does not say.
    """
    launch = launched(launch, gpus)
    # What differs between the ranks is a number, and that of the first is 0.
    found = {name: value if value is not None else "0" for name, value in launch.variables().items()}
    found.pop("PREFLIGHT_GPUS_PER_NODE", None)
    precision = launch.options.get("mixed-precision") if launch.framework == "accelerate" else None
    return found | ({"ACCELERATE_MIXED_PRECISION": precision} if precision else {})


def settled(profile: Profile, context: Context, read: list[Finding]) -> tuple[list[Finding], list[str]]:
    """Bring the findings of reading and of running together; return them, and notes on what was dropped."""
    from preflight.check.dry_run.plausible_branches import branches
    from preflight.check.dry_run.settle import settle

    run = Run(profile, context)
    found, dropped = settle(run, read)
    decided = branches(run)
    if decided:
        more = f" and {len(decided) - 6} more" if len(decided) > 6 else ""
        dropped.append(
            f"decided by values that a virtual GPU does not have, and perhaps otherwise in a real run: the conditions at "
            f"{', '.join(decided[:6])}{more}"
        )
    return sorted([*found, *_raised(run, found)], key=sort_key), dropped


def reported(profile: Profile) -> Profile:
    """Return the profile without the long lists that only rules and the estimate of time look into."""
    return msgspec.structs.replace(
        profile,
        work=Work(), observations=(), modules=(), parameters=(), precision=(), reached={}, lines=(), calls=(), messages={},
    )  # fmt: skip


def _raised(run: Run, found: list[Finding]) -> list[Finding]:
    """The script raises an exception, unless a rule has already said what is wrong there."""
    profile = run.profile
    if profile.outcome != "failed" or not profile.frames:
        return []
    from preflight.check.notices.script_raises import RULE

    place = run.place(run.raised_at)
    if any(
        f.severity == "error"
        and (f.location.path, f.location.line) == (place.path, place.line)
        and any(e.source == "measured" for e in f.evidence)
        for f in found
    ):
        return []
    trace = " < ".join(f"{Path(f.file).name}:{f.line} in {f.function}" for f in reversed(profile.frames))
    return [
        Finding(
            rule=RULE.name,
            code=RULE.code,
            severity=RULE.severity,
            confidence=_confidence(profile),
            message=f"the dry run ends here with {profile.error}: {in_short(profile.message or '')}",
            location=place,
            evidence=(
                Evidence("exception", f"{profile.error}: {in_short(profile.message or '')}", source="measured"),
                Evidence("called from", trace, source="measured"),
                Evidence("optimizer steps before", profile.steps, source="measured"),
            ),
            fix=Fix(
                title=profile.hint or "look at the statement that raises",
                instruction=profile.frames[-1].text.strip() or None,
            ),
        )
    ]


# Where PyTorch itself looks at shapes, types and devices: what it refuses here, it refuses on a real GPU. Data, files and
# the network may be there where the run will be, and what a stand-in gave may have been wrong.
_OF_DATA = (
    "/utils/data/",
    "/_subclasses/",
    "/serialization",
    "/hub.py",
    "/cuda/",
    "/backends/",
    "/torch/utils/__init__",
)
_OF_OPERATORS = frozenset(("RuntimeError", "IndexError", "ValueError", "TypeError"))


def _confidence(profile: Profile) -> Confidence:
    """How sure it is that the real run ends so too."""
    if profile.error not in _OF_OPERATORS or profile.assumptions:
        return "possible"
    # replicas.py raises what DistributedDataParallel would raise. Of two devices, fake tensors name no place.
    seen = [place.replace("\\", "/") for place in profile.deepest]
    refused = all(
        "replicas.py" in place or ("/torch/" in place and not any(part in place for part in _OF_DATA)) for place in seen
    )
    return "likely" if refused else "possible"


def notes_of(profile: Profile, facts: Mapping[str, Fact], device: Device) -> list[str]:
    """What a reader has to know of how the run went."""
    notes = [
        f"--dry-run executed the script: {profile.steps} optimizer steps in {profile.seconds:.0f} s, no GPU involved"
    ]
    if (end := early_end(profile)) is not None:
        notes.append(end)
    if profile.stuck and profile.outcome == "stopped":
        notes.append(f"the script caught the end of the dry run again and again, at {profile.stuck}, and was ended")
    if profile.stuck and profile.outcome == "exited":
        notes.append(f"the script left with status {profile.status} at {profile.stuck}, by os._exit()")
    if profile.steps == 0 and profile.outcome in ("ended", "exited", "stopped"):
        notes.append("the script ended without one optimizer step; nothing can be said of its training")
    if profile.cut:
        short = ", ".join(
            f"{Path(cut.line).name} after {cut.rounds}" + (f" of {cut.length}" if cut.length else "")
            for cut in profile.cut[:6]
        )
        notes.append(f"loops were ended early: {short}")
    if profile.compiled_bytes:
        notes.append(
            "torch.compile is not run: what it fuses is estimated, and timeline and holders are those of operators one by one"
        )
    notes += ranks.notes_of(profile) + growth.notes_of(profile, facts, room_of(device, profile.communicators))
    if profile.assumptions:
        notes.append("the dry run assumed: " + "; ".join(profile.assumptions))
    if profile.refused:
        notes.append("refused: " + ", ".join(sorted(profile.refused)[:5]))
    return notes + probed.notes_of(profile)
