"""One check, from a script to a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.check.context import Context
from preflight.check.efficiency import recommendations, score
from preflight.check.evaluate import evaluate_rules
from preflight.check.growth import with_growth
from preflight.check.registry import load_rules
from preflight.check.specs import longest, model_spec, parallel_dims, run_spec
from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import Reading, read
from preflight.source.script import Script, read_script
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Finding, sort_key
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import MemoryEstimate, TimelinePoint
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.report import SCHEMA, NotEvaluated, Report, Tool, Verdict
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.version import VERSION

if TYPE_CHECKING:
    from preflight.check.against_job import JobGiven
    from preflight.check.against_plan import PlanGiven


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a person may say about a check.

    Attributes:
        gpu: A GPU, in any spelling.
        gpu_memory: The size of the card as sold, GB.
        gpus: Number of GPUs.
        launch: The launch line.
        arguments: The script's own command line.
        fail_on: The severity from which the verdict is NO-GO.
        catalog: Folders of the user's own catalog.
        root: The repository's root; found from the script when None.
        dry_run: Whether to run the script on the virtual GPU.
        steps: Optimizer steps of a dry run.
        batch: What a batch holds where a dry run misses the data, as in ``x: float32[8,3], y: int64[8]``.
        assume: Configurations for a dry run, ``MODEL=CONFIG`` each.
        python: The interpreter of a dry run; None is the one that runs Preflight.
        probe: Whether a dry run is followed by a short one with real numbers on the CPU.
        time_limit: Seconds after which a dry run is ended.
        memory_snapshot: File for a snapshot that PyTorch's memory visualiser opens.
        chrome_trace: File for the estimated timeline of a step, in Chrome's format.
        expectations: File for what the dry run saw, as invariants of a real run.
        what_fits: Whether to run again with changes; None does it where the GPU is full.
        plan: The plan that the script is held against. What is not said of GPUs is taken from it.
        job: The job script that starts it.
    """

    gpu: str | None = None
    gpu_memory: float | None = None
    gpus: int | None = None
    launch: str | None = None
    arguments: tuple[str, ...] | None = None
    fail_on: str = "error"
    catalog: tuple[str, ...] = ()
    root: str | None = None
    dry_run: bool = False
    steps: int = 3
    batch: str | None = None
    assume: tuple[str, ...] = ()
    python: str | None = None
    probe: bool = True
    time_limit: float = 300.0
    memory_snapshot: str | None = None
    chrome_trace: str | None = None
    expectations: str | None = None
    what_fits: bool | None = None
    plan: PlanGiven | None = None
    job: JobGiven | None = None


Keep = Callable[[list[Finding], list[NotEvaluated]], list[Finding]]


class Device(msgspec.Struct, frozen=True):
    """The device that a run is meant for."""

    gpu: Gpu | None
    capacity_bytes: int | None
    title: str | None


def device_of(options: Options) -> Device:
    """Resolve the GPU and the memory that were named.

    Raises:
        UsageError: The GPU is not known, or the memory is not a positive number.
    """
    if options.gpu is None and options.gpu_memory is None:
        return Device(None, None, None) if options.plan is None else _planned_device(options.plan, options)
    from preflight.catalog import hardware
    from preflight.errors import UsageError

    extra = options.catalog
    gpu = hardware.resolve_gpu(options.gpu, extra) if options.gpu is not None else None
    if options.gpu_memory is not None:
        if not options.gpu_memory > 0 or options.gpu_memory > 100_000:
            raise UsageError(
                f"--gpu-memory {options.gpu_memory:g} is not a size of a GPU",
                "give it in GB, as the card is sold: 24, 80, 192",
            )
        capacity = hardware.gpu_from_memory(options.gpu_memory, extra)
        size = f"{options.gpu_memory:g} GB"
        return Device(gpu, capacity, f"{gpu.title} with {size}" if gpu is not None else f"a GPU of {size}")
    assert gpu is not None
    return Device(gpu, gpu.memory_bytes, gpu.title)


def _planned_device(given: PlanGiven, options: Options) -> Device:
    from preflight.catalog.hardware import resolve_gpu

    gpu = resolve_gpu(given.gpu, options.catalog) if given.gpu is not None else None
    return Device(gpu, given.capacity_bytes, gpu.title if gpu is not None else given.device)


def launch_of(options: Options) -> Launch:
    """Read the launch line and the configuration that it names.

    Raises:
        InputError: The configuration cannot be read.
        UsageError: The line is wrong, or contradicts the number of GPUs that was given.
    """
    if not options.launch:
        return Launch()
    from preflight.errors import UsageError
    from preflight.source.launch_config import with_config
    from preflight.source.launcher import parse_launch

    launch = with_config(parse_launch(options.launch))
    size = launch.world_size
    if size is not None and options.gpus is not None and size != options.gpus:
        raise UsageError(
            f"the launch line starts {size} {'process' if size == 1 else 'processes'}, but --gpus says {options.gpus}",
            "one process has one GPU: leave --gpus out, or say the same",
        )
    return launch


def check_text(path: Path, options: Options) -> Report:
    """Check one file.

    Raises:
        InputError: The file cannot be read or is not Python 3.
    """
    return check_script(read_script(path), options)


def check_script(script: Script, options: Options, keep: Keep | None = None) -> Report:
    """Check one parsed script.

    Args:
        script: The script.
        options: What is said about the run.
        keep: Decides which findings are shown, given all and the rules that were not evaluated; by default all are.

    Raises:
        UsageError: An option does not fit.
    """
    device = device_of(options)
    launch = launch_of(options)
    if options.plan is not None and options.gpus is None and launch.world_size is None:
        options = msgspec.structs.replace(options, gpus=options.plan.gpus)
    arguments = options.arguments if options.arguments is not None else launch.arguments_of(script.path)
    environment = launch.variables()
    if options.gpus is not None and options.gpus > 1 and launch.world_size is None:
        environment |= Launch(framework="torchrun", gpus_per_node=options.gpus).variables()
    reading = read(script, arguments, environment, Path(options.root) if options.root else None)
    reading.project.catalog = options.catalog
    facts = gather(reading, launch, options.gpus)
    model = model_spec(reading, facts)
    facts |= longest(reading, facts, model)
    run = run_spec(reading, facts, model)
    parallel = parallel_dims(reading, facts)
    profile = None
    if options.dry_run:
        from preflight.check import dry_run

        until = time.monotonic() + options.time_limit
        profile = dry_run.run(script, reading, options, device, launch)
    memory = memory_of(reading, facts, model, run, parallel, device)
    if profile is not None and profile.peak_bytes:
        memory = dry_run.memory_of(profile, device, facts)
    capacity = device.capacity_bytes
    context = Context(reading, facts, device.gpu, options.gpus, capacity, model, run, parallel, memory, launch)
    findings, missing = evaluate_rules(context, load_rules())
    dropped: list[str] = []
    if profile is not None:
        findings, dropped = dry_run.settled(profile, context, findings)
    grown = with_growth(context, findings) if profile is None else None
    if grown is not None:
        context.run, context.memory = grown
        memory = context.memory
        again, _ = evaluate_rules(context, [r for r in load_rules() if r.rule.code == "MEM026"])
        findings = sorted([*findings, *again], key=sort_key)
    if options.plan is not None and trains(facts):
        differing, untold = _beside_plan(options.plan, device, context, script)
        findings, missing = sorted([*findings, *differing], key=sort_key), [*missing, *untold]
    if options.job is not None:
        from preflight.check import against_job

        of_job = against_job.findings_of(options.job, launch, facts["distributed.strategy"].value)
        findings = sorted([*findings, *of_job], key=sort_key)
    shown = tuple(findings if keep is None else keep(findings, missing))
    verdict, notes = verdict_of(context, shown, options)
    if options.job is not None:
        notes = against_job.notes_of(options.job, launch) + notes
    step = measured = roofline = None
    if profile is not None:
        from preflight.check import fit, step_time

        if fit.wanted(profile, options):
            job = dry_run.job_of(script, reading, options, device, launch)
            measured = fit.measure(job, profile, facts, max(0.0, until - time.monotonic()))
        step = step_time.step_of(profile, device.gpu, launch, facts)
        roofline = step_time.roofline_of(profile, device.gpu) if step is not None else None
        notes += (
            dry_run.notes_of(profile, facts, device)
            + dropped
            + (step_time.note_of(profile, device.gpu, launch) if step else [])
        )
        notes += fit.notes_of(measured) if measured is not None else []
        if options.chrome_trace and step is not None:
            step_time.write_trace(options.chrome_trace, profile, device.gpu, launch)
        if options.expectations:
            from preflight.check.expected import expectations
            from preflight.check.text_file import write_whole
            from preflight.vocabulary.invariant import encoded

            write_whole(options.expectations, encoded(expectations(profile, script.path)))
        profile = dry_run.reported(profile)
    return Report(
        schema=SCHEMA,
        command="check",
        tool=Tool("preflight", VERSION),
        verdict=verdict,
        inputs=_inputs(script, options, device, launch),
        findings=shown,
        facts=facts,
        memory=memory,
        step=step,
        roofline=roofline,
        efficiency=score(context, findings, shown),
        recommendations=tuple(recommendations(context, list(shown), measured)),
        measured=measured,
        not_evaluated=tuple(missing),
        notes=tuple(notes),
        profile=profile,
    )


def _beside_plan(
    given: PlanGiven, device: Device, context: Context, script: Script
) -> tuple[list[Finding], list[NotEvaluated]]:
    """What the script sets otherwise than its plan, and what it does not tell."""
    from preflight.check.against_plan import settings
    from preflight.check.notices.plan_differs import finding_for, not_compared

    every = settings(given, device.gpu, context.facts, context.run, context.parallel)
    fits = context.memory.fits if context.memory is not None else "unknown"
    differing = [finding_for(one, given, context.facts[one.fact], script.path, fits) for one in every if one.differs]
    return differing, [not_compared(one) for one in every if one.written is None]


def trains(facts: dict[str, Fact]) -> bool:
    """Whether the script trains with PyTorch."""
    return facts["framework"].value not in (None, *_TITLES)


def memory_of(
    reading: Reading, facts: dict[str, Fact], model: Any, run: Any, parallel: Any, device: Device
) -> MemoryEstimate | None:
    """The memory, or the reason why it is not known; None where nothing trains."""
    from preflight.cost.memory import estimate_memory

    if not trains(facts):
        return (
            MemoryEstimate(capacity_bytes=device.capacity_bytes, reason="no PyTorch training was recognised")
            if device.capacity_bytes
            else None
        )
    if model is None or model.parameters is None:
        reason = facts["model.parameters"].reason or "the size of the model is not known"
        return MemoryEstimate(capacity_bytes=device.capacity_bytes, reason=reason)
    for key in ("batch.micro", "precision", "optimizer.name"):
        if not facts[key].known:
            return MemoryEstimate(
                capacity_bytes=device.capacity_bytes, reason=f"{key} is not known: {facts[key].reason}"
            )
    if run.length_schedule:
        return _over_schedule(model, run, parallel, device)
    return estimate_memory(model, run, parallel, device.gpu, device.capacity_bytes)


def _over_schedule(model: ModelSpec, run: RunSpec, parallel: ParallelDims, device: Device) -> MemoryEstimate:
    """The memory of a run whose sequences change their length at known steps: the first stage that does not fit decides."""
    from preflight.cost.memory import estimate_memory

    timeline: list[TimelinePoint] = []
    worst: MemoryEstimate | None = None
    for first_step, tokens in run.length_schedule:
        stage = estimate_memory(
            model, msgspec.structs.replace(run, sequence_length=tokens), parallel, device.gpu, device.capacity_bytes
        )
        # Step 0 of a later stage has its optimizer states already: its peaks are those of the steady step.
        points = [p for p in stage.timeline if first_step == 0 or p.step > 0]
        timeline += [
            msgspec.structs.replace(p, step=p.step if first_step == 0 else first_step + p.step - 1) for p in points
        ]
        oom = stage.oom
        if oom is not None and first_step:
            oom = msgspec.structs.replace(
                oom, step=first_step, arithmetic=f"{tokens} tokens a sample from step {first_step} on: {oom.arithmetic}"
            )
        if (
            worst is None
            or stage.peak_bytes is None
            or (worst.peak_bytes is not None and stage.peak_bytes.mid > worst.peak_bytes.mid)
        ):
            worst = msgspec.structs.replace(stage, oom=oom)
        if stage.fits == "no":
            break
    assert worst is not None
    return msgspec.structs.replace(worst, timeline=tuple(timeline))


def verdict_of(context: Context, findings: tuple[Finding, ...], options: Options) -> tuple[Verdict, list[str]]:
    """GO, NO-GO or UNKNOWN, with the notes that explain it."""
    notes: list[str] = []
    reading = context.reading
    framework = context.facts["framework"].value
    memory = context.memory
    if not trains(context.facts):
        if framework is not None:
            notes.append(f"this is a {_TITLES.get(str(framework), framework)} script: only PyTorch training is checked")
        else:
            notes.append("no training was recognised: no loop that computes gradients, and no trainer that is known")
    elif memory is not None and context.capacity_bytes is not None and memory.fits == "unknown":
        notes.append(
            f"whether the memory suffices cannot be said: {memory.reason}"
            if memory.reason
            else "whether the memory suffices is too close to call"
        )
    if reading.trace.exhausted:
        notes.append(
            f"the script was not followed to its end ({reading.trace.exhausted}): rules about missing calls were not evaluated"
        )
    notes += [note for note in reading.project.notes[:5] if note not in notes]
    if any(f.decides for f in findings) or (memory is not None and memory.fits == "no"):
        return "NO-GO", notes
    if options.fail_on == "warning" and any(f.severity == "warning" for f in findings):
        return "NO-GO", notes
    if not trains(context.facts) or (
        memory is not None and context.capacity_bytes is not None and memory.fits == "unknown"
    ):
        return "UNKNOWN", notes
    return "GO", notes


_TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "mxnet": "MXNet", "paddle": "PaddlePaddle"}


def _inputs(script: Script, options: Options, device: Device, launch: Launch) -> dict[str, Any]:
    found: dict[str, Any] = {"path": script.path}
    if device.title is not None:
        found["gpu"] = device.gpu.name if device.gpu is not None else None
        found["capacity_bytes"] = device.capacity_bytes
        found["device"] = device.title
    if options.gpus is not None:
        found["gpus"] = options.gpus
    if options.launch:
        found["launch"] = options.launch
    if options.arguments:
        found["arguments"] = list(options.arguments)
    if options.plan is not None:
        found["plan"] = options.plan.path
    if options.job is not None:
        found["job"] = options.job.job.path
    return found
