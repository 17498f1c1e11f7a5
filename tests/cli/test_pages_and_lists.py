"""``preflight explain`` and ``preflight list``."""

from __future__ import annotations

import csv
import io
import json

import pytest

from preflight.check.notices import all_rules, load_notices, rule_infos
from preflight.check.registry import load_rules
from preflight.cli.parts.tables import kinds

from .command_line import run


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize("loaded", all_rules(), ids=lambda loaded: loaded.rule.code)
def test_every_rule_has_a_page_in_every_format(loaded, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    rule = loaded.rule
    text = _said(capsys, "explain", rule.code, "--width", "80")
    assert text.startswith(f"{rule.code}  {rule.name}\n")
    assert "FOUND IN, FOR EXAMPLE" in text
    page = json.loads(_said(capsys, "explain", rule.name, "--format", "json"))
    assert (page["code"], page["severity"], page["family"]) == (rule.code, rule.severity, loaded.family)
    assert page["bad"]
    assert page["title"]
    assert _said(capsys, "explain", rule.code.lower(), "--format", "markdown").startswith(
        f"# {rule.code} `{rule.name}`"
    )
    html = _said(capsys, "explain", rule.code, "--format", "html")
    assert html.startswith("<!doctype html>")
    assert html.count("<pre") == len(page["bad"]) + len(page["good"])


def test_the_notices_are_rules_too() -> None:
    codes = [loaded.rule.code for loaded in load_notices()]
    assert codes == ["JOB001", "JOB002", "JOB003", "JOB004", "PLN001", "RUN001", "SUP001", "SUP002", "SYN001"]
    assert not set(codes) & {loaded.rule.code for loaded in load_rules()}
    assert {info.code for info in rule_infos()} >= set(codes)


def test_everything_that_can_be_listed_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"rules", "gpus", "models"} <= set(kinds())
    for kind in kinds():
        listed = json.loads(_said(capsys, "list", kind, "--format", "json"))
        rows = listed[kind]
        assert rows
        assert len(list(csv.DictReader(io.StringIO(_said(capsys, "list", kind, "--format", "csv"))))) == len(rows)
        text = _said(capsys, "list", kind, "--width", "1000")
        assert text.endswith(f"{len(rows)} in all\n")
        assert len(text.splitlines()) == len(rows) + 2
        assert _said(capsys, "list", kind, "--format", "markdown").count("\n") == len(rows) + 2


@pytest.mark.parametrize("kind", ["remedies", "rules", "checklists"])
def test_words_of_a_list_go_on_below_where_they_do_not_fit(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    narrow, wide = (_said(capsys, "list", kind, "--width", width) for width in ("80", "1000"))
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.split() == wide.split()


def test_words_narrow_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    rules = json.loads(_said(capsys, "list", "rules", "correctness", "error", "--format", "json"))["rules"]
    assert {(rule["family"], rule["severity"]) for rule in rules} == {("correctness", "error")}
    gpus = json.loads(_said(capsys, "list", "gpus", "amd", "--format", "json"))["gpus"]
    assert gpus
    assert {gpu["vendor"].lower() for gpu in gpus} == {"amd"}
    models = json.loads(_said(capsys, "list", "models", "gpt2", "--format", "json"))["models"]
    assert {"name": "gpt2", "parameters": 124439808}.items() <= next(m for m in models if m["name"] == "gpt2").items()


def test_what_a_gpu_lacks_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    gpus = json.loads(_said(capsys, "list", "gpus", "v100", "--format", "json"))["gpus"]
    assert {gpu["bf16_tflops"] for gpu in gpus} == {None}


@pytest.mark.parametrize("name", ["h100_sxm", "H100", "NVIDIA H100 80GB HBM3"])
def test_a_gpu_has_a_page_under_every_name_that_people_give_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _said(capsys, "explain", name, "--width", "100")
    assert text.startswith("h100_sxm\nNVIDIA H100 SXM5 80GB\n")
    assert "reported by the driver  79.11 GiB" in text
    # 989.4e12 FLOP/s / 3350e9 B/s = 295 FLOP per byte; 794.5 / 989.4 = 80 %
    assert "bf16  989.4 TFLOP/s; 794.5 measured in the largest products, 80%; memory limits below 295 FLOP" in text
    page = json.loads(_said(capsys, "explain", name, "--format", "json"))
    assert (page["schema"], page["name"], page["memory_bytes"]) == ("preflight.gpu/1", "h100_sxm", 84_943_715_697)


def test_the_page_of_a_gpu_does_not_show_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    text = _said(capsys, "explain", "p100")
    assert "bf16" not in text
    assert "measured" not in text
    assert "PRICES" not in text
    assert "between GPUs" not in text


def test_the_page_of_a_model_says_what_it_is_made_of_and_how_to_plan_it(capsys: pytest.CaptureFixture[str]) -> None:
    page = _said(capsys, "explain", "llama-3-8b")
    assert "parameters: 8,030,261,248" in page
    assert "heads of keys and values: 8" in page
    assert "meta-llama/Meta-Llama-3-8B" in page
    assert "$ preflight plan llama-3-8b 64 --gpus 8" in page
    told = json.loads(_said(capsys, "explain", "mixtral-8x7b", "--format", "json"))
    assert told["parameters"] == 46_702_792_704
    assert told["made_of"]["experts"] == 8
    assert "experts" not in json.loads(_said(capsys, "explain", "resnet50", "--format", "json"))["made_of"]


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "resnet50", "t5-base", "vit-base-patch16-224"])
def test_the_plan_that_the_page_of_a_model_names_can_be_made(capsys: pytest.CaptureFixture[str], name: str) -> None:
    page = _said(capsys, "explain", name)
    command = next(line.split("$ preflight ")[1] for line in page.splitlines() if "$ preflight plan" in line)
    assert run(*command.split(), "--quiet") in (0, 1)
    assert name in capsys.readouterr().out


def test_the_page_of_a_probe_says_how_it_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert "$ preflight investigate probe compute" in _said(capsys, "explain", "compute")
