"""The bottleneck analysis: what it says is computed, and it is there when it was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.plan.advise.sensitivities import tried
from preflight.plan.make import plan_report
from preflight.plan.request import Request
from preflight.plan.spread import settled
from preflight.vocabulary.plan import Bottleneck, Plan

Asked = Callable[..., Request]


def plan_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    main(["plan", *words, "--gpu", "h100", "--format", "json"])
    plan: dict[str, object] = json.loads(capsys.readouterr().out)["plan"]
    return plan


def analysed(request: Request) -> tuple[Plan, dict[tuple[str, str], Bottleneck]]:
    import msgspec

    plan = plan_report(msgspec.structs.replace(request, bottlenecks=True)).plan
    assert plan is not None
    return plan, {(one.of, one.name): one for one in plan.bottlenecks}


def test_shares_are_those_of_step_and_memory(asked: Asked) -> None:
    plan, found = analysed(asked("30", "64", gpus=4, strategy="pipeline_parallel"))
    assert plan.chosen is not None
    assert plan.chosen.step is not None
    spent, parts = plan.chosen.step.breakdown, plan.chosen.memory.breakdown
    assert spent is not None
    assert parts is not None
    assert found["time", "bubble"].share == pytest.approx(spent.bubble / spent.total)
    assert found["memory", "optimizer states"].share == pytest.approx(parts.optimizer_states / parts.total)
    rates = {name: one.share for (kind, name), one in found.items() if kind == "rate"}
    assert rates == pytest.approx({driver.name: driver.share for driver in plan.drivers if driver.share >= 0.02})
    for kind in ("time", "rate", "memory"):
        shares = [one.share for one in plan.bottlenecks if one.of == kind]
        assert shares == sorted(shares, reverse=True)


def test_the_best_change_leaves_less_of_its_part(asked: Asked) -> None:
    request = settled(asked("13", "32", gpus=8, strategy="tensor_parallel"))
    plan, found = analysed(request)
    trials = {trial.change.title: trial.after for trial in tried(request)}
    assert plan.chosen is not None
    assert plan.chosen.memory.breakdown is not None
    changed = {name: one.change for (kind, name), one in found.items() if kind == "memory" and one.change}
    assert "activations" in changed
    for name, text in changed.items():
        after = next(trials[title] for title in trials if text.startswith(f"{title}: "))
        field = name.replace(" ", "_")
        assert after.memory.breakdown is not None
        assert getattr(after.memory.breakdown, field) < 0.9 * getattr(plan.chosen.memory.breakdown, field)
        assert plan.chosen.memory.fits != "yes" or after.memory.fits == "yes"


def test_scores_that_are_written_out_are_a_bottleneck_of_memory(asked: Asked) -> None:
    _, flash = analysed(asked("7", "8", sequence_length=8192))
    assert ("memory", "attention scores") not in flash
    _, written = analysed(asked("7", "8", sequence_length=8192, attention="math"))
    scores = written["memory", "attention scores"]
    assert scores.share > 0.5
    assert "flash attention" in (scores.change or "")


def test_they_are_shown_when_they_are_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = ["plan", "7", "32", "--gpus", "8", "--gpu", "h100", "--strategy", "fsdp"]
    main(line)
    short = capsys.readouterr().out
    main([*line, "--bottlenecks"])
    long = capsys.readouterr().out
    for title in ("BOTTLENECKS", "ONE CHANGE AT A TIME"):
        assert title not in short
        assert title in long
    assert len(long.split("\n")) > len(short.split("\n")) + 15
    file = tmp_path / "plan.yaml"
    text = "model: {size_billions: 7, batch_size: 32}\nhardware: {gpu_type: h100}\ncluster: {num_gpus: 8}\n"
    file.write_text(text + "distribution: {strategy: fsdp}\nanalysis: {enable_bottlenecks: true}\n")
    main(["plan", "--config", str(file)])
    assert "BOTTLENECKS" in capsys.readouterr().out


@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_every_page_shows_them(capsys: pytest.CaptureFixture[str], format_: str) -> None:
    line = ["plan", "7", "32", "--gpus", "8", "--gpu", "h100", "--format", format_]
    main(line)
    assert "What holds it back" not in capsys.readouterr().out
    main([*line, "--bottlenecks"])
    text = capsys.readouterr().out
    assert "What holds it back" in text
    assert "10 % better would shorten the step by" in text


def test_memory_alone_has_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "7", "32", "--basic", "--bottlenecks")
    kinds = {one["of"] for one in plan["bottlenecks"]}  # type: ignore[attr-defined]
    assert kinds == {"memory"}
    assert not plan.get("drivers")
    main(["plan", "7", "32", "--basic"])
    text = capsys.readouterr().out
    assert "STEP" not in text
    assert "RUN" not in text
