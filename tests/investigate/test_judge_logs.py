"""The figures of the judge, against answers worked out by hand, and the index of public logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "investigate"
sys.path.insert(0, str(FOLDER))

import judge_logs  # noqa: E402


def case(name: str, category: str, accept: tuple[str, ...] = (), failing=None, culprit=None) -> judge_logs.Case:
    return judge_logs.Case(name, (), category, accept, failing, culprit)


def answer(
    category: str, confidence: float, rank: int | None = None, culprit: tuple[int, ...] = ()
) -> judge_logs.Answer:
    return judge_logs.Answer(category, confidence, rank, culprit, None, "")


def test_figures_by_hand() -> None:
    cases = [
        case("a", "oom", failing=(3,), culprit=(3,)),
        case("b", "oom", accept=("other",), failing=(1,)),
        case("c", "none"),
        case("d", "none"),
        case("e", "network", culprit=(0, 2)),
    ]
    answers = [
        answer("oom", 0.9, rank=3, culprit=(3,)),
        answer("other", 0.4, rank=0),
        answer("none", 0.8),
        answer("cannot-tell", 0.3),
        answer("none", 0.7, culprit=(0,)),
    ]
    told = judge_logs.figures(cases, answers)
    assert told["strict"] == (2, 5)
    assert told["lenient"] == (3, 5)
    assert told["strict of failures"] == (1, 3)
    assert told["healthy called failures"] == (0, 2)
    assert told["failures called healthy"] == (1, 3)
    assert told["failing rank"] == (1, 2)
    assert told["culprit"] == (1, 2)
    # oom: 1 right, said once, there twice: 2/3; none: 1 right, said twice, there twice: 1/2; network: 0.
    assert told["macro F1"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_calibration_error_and_the_surest() -> None:
    told = [(0.95, True), (0.95, False), (0.15, False), (0.15, False), (1.0, True)]
    # bin 0.9 to 1: mean 2.9/3, right 2/3; bin 0.1: mean 0.15, right 0.
    assert judge_logs.calibration_error(told) == pytest.approx((3 * (2.9 / 3 - 2 / 3) + 2 * 0.15) / 5)
    assert judge_logs.selective(told, 0.6) == (2, 3)


def test_it_judges_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "log.txt").write_text("CUDA out of memory\n", encoding="utf-8")
    (folder / "label.json").write_text(json.dumps({"category": "oom", "accept": []}), encoding="utf-8")
    monkeypatch.setattr(judge_logs, "answer_of", lambda case: answer("usercode", 0.5))
    assert judge_logs.main([str(tmp_path), "--misses"]) == 0
    out = capsys.readouterr().out
    assert "one: oom () -> usercode 0.50" in out
    assert judge_logs.main([str(tmp_path / "nothing")]) == 2


def test_the_index_names_each_log_once_with_a_source_and_a_label() -> None:
    from typing import get_args

    from preflight.vocabulary.signature import Category

    rows = json.loads((FOLDER / "corpus.json").read_text(encoding="utf-8"))
    assert len({row["name"] for row in rows}) == len(rows)
    failed = [row for row in rows if row["category"] != "none"]
    assert len(failed) >= 200
    assert len(rows) - len(failed) >= 40
    for row in rows:
        assert row["source"].startswith("https://")
        assert row["cause"]
        assert row["split"] in ("development", "held-out")
        assert {row["category"], row.get("second", "none")} <= set(get_args(Category))
    of_source: dict[str, set[str]] = {}
    for row in rows:
        of_source.setdefault(row["source"], set()).add(row["split"])
    assert all(len(splits) == 1 for splits in of_source.values())
