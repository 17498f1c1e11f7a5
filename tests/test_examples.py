"""What the example scripts promise: verdict, findings, step, score, and parameter counts that torch confirms."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

import preflight
from preflight.vocabulary.report import Report, Verdict

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of one example; ``only`` lists all codes that a regular reader sees."""

    verdict: Verdict
    codes: frozenset[str] = frozenset()
    only: bool = False
    absent: frozenset[str] = frozenset()
    step: int | None = None
    score: tuple[float, float] | None = None
    parameters: int | None = None
    fits: Literal["yes", "no"] | None = None
    gpu: str | None = None
    gpus: int | None = None
    launch: str | None = None
    world_size: int | None = None


def _codes(*codes: str) -> frozenset[str]:
    return frozenset(codes)


PROMISES = {
    "memory_overflow.py": Promise(
        gpu="a100-40gb",
        verdict="NO-GO",
        codes=_codes("MEM002", "MEM020", "EFF024", "EFF002"),
        step=1001,
        score=(40, 60),
        parameters=1_557_611_200,
        fits="no",
    ),
    "inefficient_distributed.py": Promise(
        gpu="a100-40gb",
        gpus=8,
        verdict="GO",
        codes=_codes("DST001", "DST006", "EFF002", "EFF004", "EFF009", "ACC004"),
        score=(40, 60),
        # ViT-B/16 with 1000 classes: 85,798,656 of the body and 768 x 1000 + 1000 of the head
        parameters=86_567_656,
        fits="yes",
        world_size=8,
    ),
    "gradient_explosion.py": Promise(
        verdict="NO-GO",
        codes=_codes("AMP001", "NUM001", "NUM003", "NUM011", "LR001"),
        parameters=6_093_665,
    ),
    "good_model.py": Promise(
        gpu="a100-80gb", verdict="GO", only=True, score=(80, 100), parameters=124_475_904, fits="yes"
    ),
    "wrong_accumulation.py": Promise(
        verdict="NO-GO", codes=_codes("ACC001", "AMP002", "AMP003"), only=True, parameters=4_697_043
    ),
    "leaking_memory.py": Promise(
        gpu="rtx4090",
        verdict="NO-GO",
        codes=_codes("MEM010", "MEM014", "MEM026"),
        absent=_codes("MEM002", "MEM011"),
        step=16,
        # ResNet-50 has 25,557,032 with 1000 classes; 45 instead take (1000 - 45) x (2048 + 1) away
        parameters=25_557_032 - 955 * 2049,
    ),
    "trainer_misconfigured.py": Promise(
        verdict="NO-GO", codes=_codes("TRN001", "TRN002", "LR001"), only=True, parameters=335_154_188
    ),
    "lightning_module.py": Promise(
        # ResNet-50 with 200 classes
        verdict="GO",
        only=True,
        score=(80, 100),
        parameters=25_557_032 - 800 * 2049,
        world_size=1,
    ),
    "deepspeed_mismatch.py": Promise(
        gpu="h100",
        launch="deepspeed --num_gpus 8 examples/deepspeed_mismatch.py",
        verdict="NO-GO",
        codes=_codes("CFG017"),
        only=True,
        parameters=1_414_647_808,
        fits="yes",
        world_size=8,
    ),
    "fsdp_language_model.py": Promise(
        gpu="h100",
        launch="torchrun --nproc_per_node 8 examples/fsdp_language_model.py",
        verdict="GO",
        only=True,
        score=(80, 100),
        parameters=8_030_261_248,
        fits="yes",
        world_size=8,
    ),
    "finetune_vision.ipynb": Promise(verdict="NO-GO", codes=_codes("LOS001"), only=True),
    "jax_training.py": Promise(verdict="UNKNOWN", only=True),
    "accelerate_loop.py": Promise(verdict="NO-GO", codes=_codes("ACL001"), only=True, parameters=66_957_317),
}


def _report(name: str) -> Report:
    promise = PROMISES[name]
    return preflight.analyze(EXAMPLES / name, gpu=promise.gpu, gpus=promise.gpus, launch=promise.launch)


def test_every_example_makes_a_promise() -> None:
    scripts = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert scripts == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_keeps_its_promise(name: str) -> None:
    promise = PROMISES[name]
    report = _report(name)
    found = {finding.code for finding in report.findings if finding.severity != "info"}
    assert report.verdict == promise.verdict
    assert promise.codes <= found
    assert not promise.absent & found
    if promise.only:
        assert found == promise.codes
    if promise.parameters is not None:
        assert report.facts["model.parameters"].value == promise.parameters
    if promise.world_size is not None:
        assert report.facts["world_size"].value == promise.world_size
    if promise.fits is not None:
        assert report.memory is not None
        assert report.memory.fits == promise.fits
    if promise.step is not None:
        assert report.memory is not None
        assert report.memory.oom is not None
        assert report.memory.oom.step == promise.step
    if promise.score is not None:
        assert report.efficiency is not None
        low, high = promise.score
        assert low <= report.efficiency.score <= high


def test_the_good_one_is_quiet() -> None:
    assert _report("good_model.py").findings == ()


def test_the_parts_of_the_overflow_add_up() -> None:
    memory = _report("memory_overflow.py").memory
    assert memory is not None
    assert memory.breakdown is not None
    assert memory.device_bytes is not None
    assert math.isclose(memory.breakdown.total, memory.device_bytes.mid, rel_tol=1e-6)
    # fp32 weights, and two fp32 moments of AdamW
    assert memory.breakdown.model_parameters == 4 * 1_557_611_200
    assert memory.breakdown.optimizer_states == 8 * 1_557_611_200


def test_half_the_batch_fits_as_the_hint_says(tmp_path: Path) -> None:
    text = (EXAMPLES / "memory_overflow.py").read_text(encoding="utf-8")
    assert text.count("batch_size=4") == 1
    report = _report("memory_overflow.py")
    (overflow,) = (finding for finding in report.findings if finding.code == "MEM002")
    assert overflow.fix is not None
    assert "from 4 to 2" in overflow.fix.title
    (needed,) = (one for one in overflow.evidence if one.what == "needed at the peak")
    assert needed.arithmetic is not None
    assert needed.arithmetic.startswith("parameters 5.8 GiB + ")
    assert needed.arithmetic.endswith("(41.6 GiB to 58.6 GiB)")
    script = tmp_path / "memory_overflow.py"
    script.write_text(text.replace("batch_size=4", "batch_size=2"), encoding="utf-8")
    assert preflight.analyze(script, gpu="a100-40gb").verdict == "GO"


def test_another_framework_is_named() -> None:
    report = _report("jax_training.py")
    assert report.facts["framework"].value == "jax"
    assert report.memory is None


def _sources() -> list[tuple[str, str]]:
    scripts = [(path.name, path.read_text(encoding="utf-8")) for path in sorted(EXAMPLES.glob("*.py"))]
    for path in EXAMPLES.glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        lines = [line for cell in cells for line in cell.splitlines() if not line.startswith(("%", "!"))]
        scripts.append((path.name, "\n".join(lines)))
    return scripts


@pytest.mark.parametrize(("name", "text"), _sources(), ids=lambda value: value if len(value) < 40 else "")
def test_an_example_is_valid_python(name: str, text: str) -> None:
    tree = ast.parse(text, name)
    if name.endswith(".py"):
        assert ast.get_docstring(tree), "an example says what it shows"


def _definitions(name: str) -> dict[str, Any]:
    """The classes, functions and constants of an example; imports of what is not installed are left out."""
    tree = ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))
    kept = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchvision"))
    ]
    space: dict[str, Any] = {"__name__": "example"}
    exec(compile(ast.Module(kept, []), name, "exec"), space)
    return space


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("good_model.py", "LanguageModel"),
        ("gradient_explosion.py", "Forecaster"),
        ("wrong_accumulation.py", "Segmenter"),
    ],
)
def test_torch_counts_the_same_parameters(name: str, model: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("numpy")
    with torch.device("meta"):
        built = _definitions(name)[model]()
    assert sum(parameter.numel() for parameter in built.parameters()) == PROMISES[name].parameters


@pytest.mark.torch
def test_the_networks_of_examples_can_be_trained() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("numpy")
    space = _definitions("gradient_explosion.py")
    model = space["Forecaster"](hidden=8, layers=1)
    value, bucket = model(torch.rand(4, 6, space["METERS"]))
    space["objective"](value, bucket, torch.rand(4, space["METERS"])).backward()
    assert model.lstm.weight_hh_l0.grad is not None

    image = torch.rand(2, 3, 32, 32)
    assert _definitions("wrong_accumulation.py")["Segmenter"]((4, 8)).eval()(image).shape == (2, 19, 32, 32)

    space = _definitions("good_model.py")
    space.update(WIDTH=24, HEADS=2, LAYERS=2, VOCABULARY=40, CONTEXT=16)
    logits = space["LanguageModel"]()(torch.randint(40, (2, 16)))
    logits.square().mean().backward()
    assert logits.shape == (2, 16, 40)
