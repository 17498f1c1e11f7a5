"""The programs with silent bugs say what is wrong with them in a form that the measurement understands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

MONITOR = Path(__file__).resolve().parents[2] / "benchmarks" / "monitor"
PROGRAMS = sorted((MONITOR / "bugs").glob("*.py"))
FAMILIES = {
    "optimizer",
    "gradients",
    "replicas",
    "precision",
    "data",
    "mode",
    "schedule",
    "checkpoint",
    "init",
    "loss",
    "clipping",
    "other",
}
FAULT = re.compile(r"# fault: (\w+); first effect: step (\d+); names: (\S[^;]*); family: (\w+)")


def header_of(text: str) -> dict[str, str]:
    """Return the fields of the comment block that follows the docstring."""
    docstring = ast.parse(text).body[0]
    fields: dict[str, str] = {}
    for line in text.splitlines()[docstring.end_lineno :]:
        found = re.fullmatch(r"# ([a-z][a-z ]*): (.*\S)", line)
        if not found:
            break
        assert found[1] not in fields, f"{found[1]} is said twice"
        fields[found[1]] = found[2]
    return fields


def options_of(tree: ast.Module) -> set[str]:
    """Return the options that the program adds to its argument parser."""
    return {
        argument.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 35


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_says_what_is_wrong_with_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    header = header_of(text)
    assert {"source", "first effect", "names", "family"} <= header.keys()
    assert header.keys() <= {"source", "first effect", "names", "family", "launch", "detectable"}
    assert re.match(r"(yes|no)\b.+", header.get("detectable", "yes it is"))
    assert re.match(r"https://\S+\.\S+", header["source"])
    assert re.fullmatch(r"step \d+", header["first effect"])
    assert all(name.strip() for name in header["names"].split(","))
    assert header["family"] in FAMILIES
    assert re.fullmatch(r"torchrun --nproc-per-node [2-9]", header.get("launch", "torchrun --nproc-per-node 2"))
    grouped = "init_process_group" in text or "init_device_mesh" in text
    assert ("launch" in header) == grouped or ("launch" in header and "Accelerator(" in text)
    assert {"--fixed", "--seed", "--steps"} <= options_of(tree)


def test_the_faults_of_the_benchmark_model_are_all_described() -> None:
    text = (MONITOR / "gpt_faults.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("# fault:")]
    described = [found for line in lines if (found := FAULT.fullmatch(line))]
    assert len(described) == len(lines) == 7
    assert {found[4] for found in described} <= FAMILIES
    for found in described:
        assert f'"{found[1]}"' in text, f"nothing in the program does {found[1]}"


def test_a_header_that_says_a_thing_twice_or_not_at_all_is_seen() -> None:
    assert header_of('"""A."""\n# source: https://a.b/c\n\n# names: x\n') == {"source": "https://a.b/c"}
    with pytest.raises(AssertionError, match="twice"):
        header_of('"""A."""\n# names: x\n# names: y\n')
