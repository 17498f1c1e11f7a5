"""Runs the script with real numbers on the CPU and says what they showed."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import torch._dynamo  # before torch.cuda looks as if it were built: it would then ask for what only CUDA builds have
from torch.optim import optimizer as optimizers

from preflight.dryrun.virtual import executing, loaders, loops, phases, saving
from preflight.dryrun.virtual.absent import missing
from preflight.dryrun.virtual.engine import cuda
from preflight.dryrun.virtual.guard import guard
from preflight.dryrun.virtual.probe import host, standins, summary
from preflight.dryrun.virtual.probe.batches import Cut
from preflight.dryrun.virtual.probe.guessing import guess
from preflight.dryrun.virtual.probe.rounds import Rounds
from preflight.dryrun.virtual.probe.shrink import Shrink
from preflight.dryrun.virtual.probe.trials import examine
from preflight.dryrun.virtual.probe.watch import Watch
from preflight.dryrun.virtual.progress import Progress, Stop


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run one script; return plain values for JSON.

    Args:
        job: As for a dry run, with ``plan``: ``samples`` and ``tokens`` of a batch, ``layers`` and ``width`` of a model, each
            a limit or None.
    """
    plan = job["plan"]
    # Half of the cores: threads that wait for a core that others use are slower than none.
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    progress = Progress(job["root"], job["steps"])
    watch, gpu = Watch(progress), host.Host(progress)
    cut = Cut(plan.get("samples"), plan.get("tokens"), progress)
    shrink = Shrink(plan.get("layers"), plan.get("width"))
    host.install()
    cuda.install(gpu, job["card"])
    phases.install(gpu)
    watch.install()
    shrink.install()
    rounds = Rounds(gpu) if plan.get("samples") is not None else loops.Rounds(gpu)
    loaders.install(rounds)
    cut.install()
    saving.install(progress.line)
    # Weights are drawn, other than in a dry run: their size is what counts here.
    executing.prepare(job, progress, rounds)
    overlay = guard.install(job["scratch"])
    missing.install(job, progress, rounds, overlay)
    if plan.get("noise", True):
        standins.install()
    trials = _Trials(watch, cut)
    trials.install()
    late = executing.end_when_told(progress)
    outcome: dict[str, Any] = {"outcome": "ended"}
    with host.Mode(watch, cut):
        try:
            executing.execute(job["script"])
        except Stop:
            outcome = {"outcome": "time is up" if late else "stopped"}
        except SystemExit as error:
            outcome = {"outcome": "exited", "status": str(error.code)}
        except BaseException as error:
            outcome = {"outcome": "failed", **executing.failure(error, progress)}
        if outcome["outcome"] in ("ended", "exited", "stopped") and not late:
            trials.finish()
    seen = summary.of(watch, trials.told)
    seen["changed"] = [*cut.told, *shrink.told, *getattr(rounds, "told", ())]
    more = {"refused": dict(overlay.refused), "assumptions": missing.lines(rounds), "probe": seen}
    return {**outcome, **more, "steps": progress.step, "torch": torch.__version__}


class _Trials:
    """Makes the experiments once, after the first step of an optimizer, when no graph is held."""

    def __init__(self, watch: Watch, cut: Cut) -> None:
        self.watch, self.cut = watch, cut
        self.told: dict[int, dict[str, Any]] = {}

    def install(self) -> None:
        optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self.after_step(optimizer))

    def after_step(self, optimizer: Any) -> None:
        """Examine the models that have been called; before the last step, move every weight a little."""
        watch = self.watch
        if watch.muted:
            return
        for number, root in list(watch.roots.items()):
            if root.inputs is not None and not root.examined and root.parameters:
                root.examined = True
                try:
                    self.told[number] = examine(root, watch, self.cut.sizes)
                except Exception as error:
                    self.told[number] = {"reason": f"{type(error).__name__}: {str(error)[:200]}"}
                root.inputs = None
        watch.next_step()
        progress = watch.progress
        if progress.counts.get(id(optimizer), 0) == progress.limit - 1:
            self._shake(optimizer)
        if all(progress.counts.get(id(made), 0) >= progress.limit for made in watch.optimizers):
            progress.stopping = True
            raise Stop

    def finish(self) -> None:
        """Experiment with what the models learn, when nothing of the script's comes any more."""
        for number, root in self.watch.roots.items():
            if number in self.told and root.kept is not None:
                with contextlib.suppress(Stop, RuntimeError, ValueError, IndexError, TypeError):
                    self.told[number]["guess"] = guess(root, self.watch)

    def _shake(self, optimizer: Any) -> None:
        """Move every weight a little: what begins at zero on purpose then lets gradients through."""
        self.watch.shaken = True
        with self.watch.quiet(), torch.no_grad(), contextlib.suppress(RuntimeError):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.is_floating_point():
                        spread = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
                        parameter.add_(torch.randn_like(parameter) * (0.02 * spread + 1e-3))
