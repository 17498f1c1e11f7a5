"""One check, from a script to a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from preflight.check.asked import Device, Options, device_of, launch_of
from preflight.check.beside import beside
from preflight.check.context import Context
from preflight.check.efficiency import NOT_SCORED, recommendations, score
from preflight.check.evaluate import evaluate_rules
from preflight.check.evaluating import with_evaluation
from preflight.check.growth import with_growth
from preflight.check.memory import memory_of
from preflight.check.placement import may_be_half, why_less
from preflight.check.registry import load_rules
from preflight.check.specs import longest, model_spec, parallel_dims, run_spec
from preflight.check.verdict import Decides, counted_alone, trains, verdict_of
from preflight.source.evaluate.gpu_questions import CAPABILITY
from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import read
from preflight.source.script import Script, read_script
from preflight.vocabulary.finding import Finding, sort_key
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.report import SCHEMA, NotEvaluated, Report, Tool
from preflight.vocabulary.version import VERSION

if TYPE_CHECKING:
    from preflight.check.against_plan import PlanGiven

Keep = Callable[[list[Finding], list[NotEvaluated]], list[Finding]]

# The rule that speaks of memory that grows; what it asks for is known only once the other rules have spoken.
_GROWTH = "MEM026"


def check_text(path: Path, options: Options) -> Report:
    """Check one file.

    Raises:
        InputError: The file cannot be read or is not Python 3.
        UsageError: An option does not fit.
    """
    return check_script(read_script(path), options)


def check_script(script: Script, options: Options, keep: Keep | None = None, decides: Decides | None = None) -> Report:
    """Check one parsed script.

    Args:
        script: The script.
        options: What is said about the run.
        keep: Decides which findings are shown, given all and the rules that were not evaluated; by default all are.
        decides: Which of those alone makes the verdict NO-GO; by default an error that is at least likely.

    Raises:
        UsageError: An option does not fit.
        InputError: A configuration that is named cannot be read, or a dry run gave no answer.
    """
    device, launch = device_of(options), launch_of(options)
    if options.plan is not None and options.gpus is None and launch.world_size is None:
        options = msgspec.structs.replace(options, gpus=options.plan.gpus)
    context = _understood(script, options, device, launch)
    until = time.monotonic() + options.time_limit
    profile = _run(script, options, device, context) if options.dry_run else None
    findings, missing, dropped = _found(script, options, device, context, profile)
    shown = tuple(findings if keep is None else keep(findings, missing))
    verdict, notes = verdict_of(context, shown, decides)
    efficiency = score(context, findings, shown, missing)
    if efficiency is None and trains(context.facts):
        notes.append(NOT_SCORED)
    if options.job is not None:
        from preflight.check import against_job

        notes = against_job.notes_of(options.job, launch) + notes
    more: dict[str, Any] = {}
    if profile is not None:
        from preflight.check.dry_run.after import after_run

        ran = after_run(script, options, device, context, profile, until)
        notes += [*ran.notes, *dropped, *ran.later]
        more = {"step": ran.step, "roofline": ran.roofline, "measured": ran.measured, "profile": ran.profile}
    return Report(
        schema=SCHEMA,
        command="check",
        tool=Tool("preflight", VERSION),
        verdict=verdict,
        inputs=_inputs(script, options, device),
        findings=shown,
        facts=context.facts,
        memory=context.memory,
        efficiency=efficiency,
        recommendations=tuple(recommendations(context, list(shown), more.get("measured"))),
        not_evaluated=tuple(missing),
        notes=tuple(notes),
        **more,
    )


_HALF = (
    "from_pretrained without dtype loads weights in float32 before Transformers 5, where they do not fit, and since then as "
    "the checkpoint has them, where they may: give dtype"
)


def _understood(script: Script, options: Options, device: Device, launch: Launch) -> Context:
    """Read a script: its facts, its model and run in numbers, and its memory by formula."""
    arguments = options.arguments if options.arguments is not None else launch.arguments_of(script.path)
    environment = launch.variables()
    if options.gpus is not None and options.gpus > 1 and launch.world_size is None:
        environment |= Launch(framework="torchrun", gpus_per_node=options.gpus).variables()
    if device.gpu is not None and device.gpu.compute_capability is not None:
        environment[CAPABILITY] = "{}.{}".format(*device.gpu.compute_capability)
    reading = read(script, arguments, environment, Path(options.root) if options.root else None)
    reading.project.catalog = options.catalog
    facts = gather(reading, launch, options.gpus)
    model = model_spec(reading, facts)
    facts |= longest(reading, facts, model) | beside(reading)
    run, parallel = run_spec(reading, facts, model), parallel_dims(reading, facts)
    memory = memory_of(facts, model, run, parallel, device)
    context = Context(
        reading, facts, device.gpu, options.gpus, device.capacity_bytes, model, run, parallel, memory, launch
    )
    if (evaluated := with_evaluation(context)) is not None:
        context.run = run = evaluated
        context.memory = memory = memory_of(facts, model, run, parallel, device)
    if memory is not None and memory.fits == "no" and (less := why_less(reading, run, facts)) is not None:
        context.memory = msgspec.structs.replace(memory, fits="unknown", p_fit=None, oom=None, reason=less)
    elif memory is not None and memory.fits == "no" and run.precision != "pure-bf16" and may_be_half(reading):
        half = memory_of(facts, model, msgspec.structs.replace(run, precision="pure-bf16"), parallel, device)
        if half is not None and half.fits != "no":
            context.memory = msgspec.structs.replace(memory, fits="unknown", p_fit=None, oom=None, reason=_HALF)
    if memory is not None and memory.fits == "yes" and counted_alone(context):
        # That one of them fits says nothing of all.
        reason = "the sizes of the other networks that are trained are not known; a dry run would tell"
        context.memory = msgspec.structs.replace(memory, fits="unknown", p_fit=None, reason=reason)
    return context


def _run(script: Script, options: Options, device: Device, context: Context) -> Profile:
    """Run a script on the virtual GPU; what it held there takes the place of the formulas."""
    from preflight.check.dry_run import added, end, memory

    profile = added.run(script, context.reading, options, device, context.launch)
    if profile.peak_bytes:
        context.memory = memory.memory_of(profile, device, context.facts)
    elif context.memory is not None and context.memory.peak_bytes is None:
        # The formulas wait for what a dry run would tell: this one was made, and told nothing.
        context.memory = msgspec.structs.replace(context.memory, reason=end.why_unknown(profile))
    return profile


def _found(
    script: Script, options: Options, device: Device, context: Context, profile: Profile | None
) -> tuple[list[Finding], list[NotEvaluated], list[str]]:
    """Return what rules, the dry run, the plan and the job say, what could not be asked, and notes on what was dropped."""
    dropped: list[str] = []
    findings, missing = evaluate_rules(context, load_rules())
    if profile is not None:
        from preflight.check.dry_run import added

        findings, dropped = added.settled(profile, context, findings)
    elif (grown := with_growth(context, findings)) is not None:
        context.run, context.memory = grown
        again, _ = evaluate_rules(context, [loaded for loaded in load_rules() if loaded.rule.code == _GROWTH])
        findings = [*findings, *again]
    if options.plan is not None and trains(context.facts):
        differing, untold = _beside_plan(options, options.plan, device, context, script)
        findings, missing = [*findings, *differing], [*missing, *untold]
    if options.job is not None:
        from preflight.check import against_job

        strategy = context.facts["distributed.strategy"].value
        findings = [*findings, *against_job.findings_of(options.job, context.launch, strategy)]
    return sorted(findings, key=sort_key), missing, dropped


def _beside_plan(
    options: Options, given: PlanGiven, device: Device, context: Context, script: Script
) -> tuple[list[Finding], list[NotEvaluated]]:
    """What the script sets otherwise than its plan, and what it does not tell."""
    from preflight.check.against_plan import again, settings
    from preflight.check.notices.plan_differs import finding_for, not_compared

    # What fits is asked of the GPU that the check is for, which need not be the plan's.
    held = msgspec.structs.replace(given, capacity_bytes=device.capacity_bytes)
    every = settings(held, device.gpu, context.facts, context.run, context.parallel)
    fits = context.memory.fits if context.memory is not None else "unknown"
    command = again(script.path, device.gpu, options.gpus, options.arguments)
    differing = [
        finding_for(one, held, context.facts[one.fact], script.path, fits, command) for one in every if one.differs
    ]
    return differing, [not_compared(one) for one in every if one.written is None]


def _inputs(script: Script, options: Options, device: Device) -> dict[str, Any]:
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
