"""What a dry run on the virtual GPU adds to a check: exact memory, and what the script did."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from preflight.check import probed, seen_growth
from preflight.cost.workspace import COMMUNICATOR, COMMUNICATOR_SOURCE, context_bytes, cublas_workspace
from preflight.dryrun import ranks
from preflight.source.launcher import Launch
from preflight.source.reading import Reading
from preflight.source.script import Script
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Confidence, Evidence, Finding, Fix, Location, sort_key
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import PART_OF, MemoryBreakdown, MemoryEstimate, Oom, Phase, TimelinePoint
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import Interval, format_bytes
from preflight.vocabulary.run import ParallelDims
from preflight.vocabulary.work import Work

if TYPE_CHECKING:
    from preflight.check.asked import Device, Options
    from preflight.check.context import Context
    from preflight.dryrun.launch import Job

_PHASES: dict[str, Phase] = {
    "init": "init", "forward": "forward", "backward": "backward", "optimizer": "optimizer", "eval": "eval",
}  # fmt: skip


def run(script: Script, reading: Reading, options: Options, device: Device, launch: Launch) -> Profile:
    """Run a script on the virtual GPU, as the first of the processes that the launch line starts.

    Raises:
        UsageError: No GPU was named, the script is not a file, or the interpreter cannot do it.
        InputError: The run gave no answer.
    """
    from preflight.dryrun.launch import dry_run
    from preflight.dryrun.ranks import with_others

    until = time.monotonic() + options.time_limit
    job = job_of(script, reading, options, device, launch)
    launch = launched(launch, options.gpus)
    profile = with_others(job, dry_run(job), launch.variables(), launch.gpus_per_node or job.devices, until)
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
    if script.file is None or script.path.endswith(".ipynb") or script.path.startswith("<"):
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


def memory_of(profile: Profile, device: Device, facts: Mapping[str, Fact]) -> MemoryEstimate:
    """The memory that was seen, and where it grows, that of the whole run."""
    return seen_growth.with_growth(_seen(profile, device), profile, facts, room_of(device, profile.communicators))


def room_of(device: Device, communicators: int = 0) -> int | None:
    """Return the bytes that PyTorch can take from the device, beside so many communicators of NCCL."""
    if device.gpu is None or device.capacity_bytes is None:
        return None
    return device.capacity_bytes - int(context_of(device.gpu).mid) - communicators * int(COMMUNICATOR.mid)


def context_of(gpu: Gpu) -> Interval:
    """Return what the driver takes for its context: of the catalog, else of published measurements."""
    return context_bytes(gpu, ParallelDims())


def _seen(profile: Profile, device: Device) -> MemoryEstimate:
    """The memory that was seen, with the driver's context and the workspace that PyTorch asks of no tensor."""
    if profile.steps == 0 and profile.peak_bytes == 0:
        return MemoryEstimate(capacity_bytes=device.capacity_bytes, method="dry-run", reason=why_unknown(profile))
    assert device.gpu is not None
    told = profile.categories.get("workspace")
    # The run itself asks for it where it multiplies matrices; without such a product at the peak it is added.
    workspace = told if told is not None else int(cublas_workspace(device.gpu))
    more = 0 if told is not None else workspace
    driver = context_of(device.gpu)
    context = driver.mid
    parts: dict[str, float] = dict.fromkeys(PART_OF.values(), 0.0)
    for category, size in profile.categories.items():
        parts[PART_OF[category]] += size
    parts["workspace"] = workspace
    peak, reserved = profile.peak_bytes + more, max(profile.reserved_bytes, profile.peak_bytes) + more
    # What NCCL takes is the least certain part: of the interval, the verdict needs the high end to fit.
    groups = profile.communicators
    context += groups * COMMUNICATOR.mid
    breakdown = MemoryBreakdown(**parts, fragmentation=max(0.0, reserved - peak), context=context)
    total = Interval(
        reserved + driver.low + groups * COMMUNICATOR.low,
        reserved + context,
        reserved + driver.high + groups * COMMUNICATOR.high,
    )
    complete = profile.steps > 1 and profile.outcome != "failed"
    fits = "no" if profile.full is not None else ("yes" if complete else "unknown")
    if device.capacity_bytes is not None and (
        (fits == "yes" and total.high > device.capacity_bytes) or (fits == "no" and total.low <= device.capacity_bytes)
    ):
        fits = "unknown"
    return MemoryEstimate(
        peak_bytes=_exact(peak),
        reserved_bytes=_exact(reserved),
        device_bytes=total,
        capacity_bytes=device.capacity_bytes,
        fits=fits,  # type: ignore[arg-type]
        oom=_oom(profile, room_of(device, profile.communicators)),
        breakdown=breakdown,
        timeline=tuple(
            TimelinePoint(
                step=moment.step,
                phase=_PHASES[moment.phase],
                allocated_bytes=moment.allocated,
                reserved_bytes=moment.reserved,
            )
            for moment in profile.timeline
        ),
        method="dry-run",
        reason=None if fits != "unknown" else _why_unknown(profile, complete),
        how=(
            f"{profile.operators} operators of {profile.steps} steps ran on fake tensors with torch {profile.torch}",
            f"peak in {profile.peak_phase} of step {profile.peak_step}",
            f"workspace of cuBLAS {format_bytes(workspace)} (published), context {format_bytes(driver.mid)} "
            f"({'catalog' if device.gpu.context_bytes else 'published measurements'})",
            *(() if not groups else (f"{groups} communicators of NCCL, each {COMMUNICATOR_SOURCE}",)),
        ),
    )


def _why_unknown(profile: Profile, complete: bool) -> str:
    if not complete and (end := _early_end(profile)) is not None:
        return f"{end}, after {profile.steps} optimizer steps" if profile.steps else end
    if not complete:
        return "the dry run did not get through two optimizer steps"
    return "what was seen is too close to the capacity for what the driver's context and NCCL may take beside it"


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _oom(profile: Profile, room: int | None) -> Oom | None:
    full = profile.full
    if full is None:
        return None
    where = f" in {full.module}" if full.module else ""
    return Oom(
        phase=_PHASES[full.phase],
        step=full.step,
        arithmetic=f"{full.operator}{where} ({full.line}) asks for {format_bytes(full.requested)}; "
        f"{format_bytes(full.allocated)} are in use, {format_bytes(full.reserved)} held"
        + (f", {format_bytes(max(0, room - full.reserved))} free" if room is not None else ""),
    )


def settled(profile: Profile, context: Context, read: list[Finding]) -> tuple[list[Finding], list[str]]:
    """Bring the findings of reading and of running together; return them, and notes on what was dropped."""
    from preflight.check.plausible_branches import branches
    from preflight.check.run import Run
    from preflight.check.settle import settle

    run = Run(profile, context)
    found, dropped = settle(run, read)
    decided = branches(run)
    if decided:
        more = f" and {len(decided) - 6} more" if len(decided) > 6 else ""
        dropped.append(
            f"decided by values that a virtual GPU does not have, and perhaps otherwise in a real run: the conditions at "
            f"{', '.join(decided[:6])}{more}"
        )
    return sorted([*found, *_raised(profile, context.reading.script, found)], key=sort_key), dropped


def reported(profile: Profile) -> Profile:
    """Return the profile without the long lists that only rules and the estimate of time look into."""
    return msgspec.structs.replace(
        profile,
        work=Work(), observations=(), modules=(), parameters=(), precision=(), reached={}, lines=(), calls=(), messages={},
    )  # fmt: skip


def _raised(profile: Profile, script: Script, found: list[Finding]) -> list[Finding]:
    """The script raises an exception, unless a rule has already said what is wrong there."""
    if profile.outcome != "failed" or not profile.frames:
        return []
    from preflight.check.notices.script_raises import RULE

    last = profile.frames[-1]
    own = script.file is not None and Path(last.file).resolve() == Path(script.file).resolve()
    place = Location(path=script.path if own else last.file, line=last.line)
    if any(
        f.severity == "error"
        and f.location.line == place.line
        and Path(f.location.path or "").name == Path(place.path or "").name
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
            message=f"the dry run ends here with {profile.error}: {_short(profile.message or '')}",
            location=place,
            evidence=(
                Evidence("exception", f"{profile.error}: {_short(profile.message or '')}", source="measured"),
                Evidence("called from", trace, source="measured"),
                Evidence("optimizer steps before", profile.steps, source="measured"),
            ),
            fix=Fix(title=profile.hint or "look at the statement that raises", instruction=last.text.strip() or None),
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


def _short(message: str) -> str:
    line = next((line for line in message.splitlines() if line.strip()), "")
    return line.strip()[:240]


def _early_end(profile: Profile) -> str | None:
    """What ended the run before enough was seen; None where nothing did."""
    if profile.outcome == "failed":
        last = profile.frames[-1] if profile.frames else None
        at = f" at {Path(last.file).name}:{last.line}" if last is not None else ""
        return f"the script ended in the dry run with {profile.error}{at}: {_short(profile.message or '')}"
    if profile.outcome == "time is up":
        at = f" at {profile.stuck}, where the script took no notice" if profile.stuck else ""
        return f"the time limit ended the dry run{at}; --time-limit gives it longer"
    if profile.outcome == "memory is up":
        return "the dry run took most of the memory that this machine had left, and was ended"
    return None


def why_unknown(profile: Profile) -> str:
    """Why a run in which nothing was put on the GPU says nothing of its memory."""
    end = _early_end(profile)
    if end is None:
        return "nothing was put on the GPU in the dry run"
    return f"{end} ({profile.hint})" if profile.hint else end


def notes_of(profile: Profile, facts: Mapping[str, Fact], device: Device) -> list[str]:
    """What a reader has to know of how the run went."""
    notes = [
        f"--dry-run executed the script: {profile.steps} optimizer steps in {profile.seconds:.0f} s, no GPU involved"
    ]
    if (end := _early_end(profile)) is not None:
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
    notes += ranks.notes_of(profile) + seen_growth.notes_of(profile, facts, room_of(device, profile.communicators))
    if profile.assumptions:
        notes.append("the dry run assumed: " + "; ".join(profile.assumptions))
    if profile.refused:
        notes.append("refused: " + ", ".join(sorted(profile.refused)[:5]))
    return notes + probed.notes_of(profile)
