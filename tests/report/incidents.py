"""An incident as an investigation leaves it, for the tests of its pages: a slow rank that a host out of memory killed."""

from __future__ import annotations

from preflight.vocabulary.incident import (
    Activity,
    Attempt,
    Clock,
    Culprit,
    FirstFailure,
    Hypothesis,
    Incident,
    Loss,
    Moment,
    NextStep,
    Pointer,
    Quote,
    Reason,
    Remedied,
    SeriesFinding,
    Suspect,
    UnknownLines,
    Why,
)
from preflight.vocabulary.report import SCHEMA, Report, Tool

BEGAN = 1_780_000_000.0
KILL = Quote(path="logs/node1/dmesg.txt", line=88, text="Out of memory: Killed process 4242 (python) total-vm:91GB")
EXIT = Quote(path="logs/agent1.log", line=40, text="failed (exitcode: -9) local_rank: 1 (pid: 4242)")
SILENT = Quote(path="logs/rank_5.log", line=311, text="step 1840 loss 2.113")


def incident() -> Incident:
    watchdog = tuple(
        Moment(
            text="Watchdog caught collective operation timeout: ALLREDUCE ran for 600000 ms",
            role="cascade", rank=rank, node=f"node{rank // 4}", time=BEGAN + 600 + rank / 10, step=1841,
            quote=Quote(path=f"logs/rank_{rank}.log", line=320, text="Watchdog caught collective operation timeout"),
        )
        for rank in (0, 1, 2, 3, 4, 6, 7)
    )  # fmt: skip
    root = Moment(
        text="the kernel killed process 4242",
        role="confirmation",
        rank=5,
        node="node1",
        time=BEGAN,
        time_error=1.5,
        quote=KILL,
    )
    return Incident(
        state="crashed", onset="running", scope="rank", category="oom", root_category="oom", symptom_category="network",
        signature="oom.host-kill", confidence=0.93,
        headline="rank 5 on node1 was killed by its host, which ran out of memory; the others waited 10 min for it and gave up",
        culprit=Culprit(
            ranks=(5,), nodes=("node1",), confidence=0.96,
            reasons=(
                Reason(text="the kernel killed its process", weight=4.1, quotes=(KILL,)),
                Reason(text="its agent saw exit code -9, the others ended with -6", weight=2.0, quotes=(EXIT,)),
                Reason(text="its log ends 600 s before those of the others", weight=1.6, quotes=(SILENT,)),
                Reason(text="torchrun names rank 0 as the first failure", weight=-0.4),
            ),
            suspects=(
                Suspect(rank=5, node="node1", probability=0.96, reasons=(Reason(text="killed by the kernel", weight=4.1),)),
                Suspect(rank=0, node="node0", probability=0.02, reasons=(Reason(text="named by torchrun", weight=0.4),)),
            ),
        ),
        first_failure=FirstFailure(
            rank=5, node="node1", time=BEGAN, path="logs/node1/dmesg.txt", line=88, text=KILL.text, step=1840
        ),
        reasons=(Reason(text="the kernel's message names the process of rank 5", weight=4.1, quotes=(KILL,)),),
        timeline=(
            Moment(text="training goes on", role="progress", ranks=tuple(range(8)), time=BEGAN - 30, step=1839),
            root, *watchdog,
            Moment(text="closing signal to the workers", role="teardown", node="node0", time=BEGAN + 602, count=3),
        ),
        hypotheses=(
            Hypothesis(cause="loader-workers", title="loader workers hold copies of the data set", category="oom", probability=0.6,
                       discriminated_by=("resident memory of the workers over time",)),
            Hypothesis(cause="checkpoint-gather", title="a checkpoint is gathered on one rank", category="oom", probability=0.25),
            Hypothesis(cause="something-else", title="something else", category="other", probability=0.15),
        ),
        five_whys=(
            Why(question="Why did the run end?", answer="seven ranks gave up waiting in an all-reduce", known="observed", quotes=(EXIT,)),
            Why(question="Why did they wait?", answer="rank 5 was no longer there", known="observed", quotes=(KILL,)),
            Why(question="Why was it killed?", answer="its host ran out of memory", known="observed", quotes=(KILL,)),
            Why(question="Why did the memory run out?", answer="resident memory grew by 40 MB a step", known="inferred"),
            Why(question="Why did nobody see it?", answer=None, known="unknown", reason="no log tells of a limit or an alarm"),
        ),
        remedies=(
            Remedied(remedy="fewer-loader-workers", title="Use fewer loader workers", kind="immediate", why="each holds its own copy",
                     change="num_workers=2", verification="59 runs without a kill"),
        ),
        next=(
            NextStep(text="look at the memory of the loader workers of the next run", kind="observe", command="ps -o rss,cmd -C python", cost="none"),
            NextStep(text="start again from step 1800 with two workers", kind="act"),
        ),
        consequences=watchdog[:1],
        recovered=(Moment(text="gradient overflow, step skipped", role="recovered", rank=2, time=BEGAN - 400, count=4),),
        ruled_out=(Reason(text="no Xid on any node", weight=-2.0),),
        series=(SeriesFinding(kind="slowdown", series="seconds", text="rank 5 takes 1.4 times as long from step 1710 on", ranks=(5,), false_alarms=0.01),),
        activity=Activity(first=BEGAN - 90, width=10, rows={rank: (3, 3, 4, 3, 3, 3, 2, 3, 3, *((0,) * 55 if rank == 5 else (1,) * 55)) for rank in range(8)}),
        attempts=(
            Attempt(number=0, began=BEGAN - 9000, ended=BEGAN - 4000, state="crashed", first_step=0, last_step=1210, category="oom", culprit=(5,)),
            Attempt(number=1, began=BEGAN - 3900, ended=BEGAN + 602, state="crashed", first_step=1200, last_step=1840, category="oom", culprit=(5,)),
        ),
        clocks=(Clock(node="node1", ahead=2.41, error=0.03, markers=211),),
        unknown=(UnknownLines(template="WARN fabric reported <*> retries", count=17, ranks=(5,), quote=SILENT),),
        caught_by=(Pointer(kind="rule", id="dataloader-workers-hold-copies", text="check warns of it", draft="[[tool]]\nname = 'x'"),),
        loss=Loss(gpu_hours_lost=12.4, steps_lost=40, effective_share=0.81, mean_hours_between_failures=(0.4, 1.2, 6.1),
                  arithmetic=("8 GPUs x (602 s + 40 steps x 12 s) = 2.4 h",)),
        world_size=8, ranks_seen=tuple(range(8)), nodes_seen=("node0", "node1"),
    )  # fmt: skip


def report() -> Report:
    return Report(
        schema=SCHEMA, command="investigate", tool=Tool("preflight", "0"), verdict="NO-GO",
        inputs={"paths": ["logs"]}, incident=incident(),
    )  # fmt: skip
