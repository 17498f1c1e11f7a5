"""Steps of training as programs print them; each line is in the form of the program that it is named after."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.source.logs import read_logs
from preflight.source.logs.sampling import TAIL, Sample
from preflight.source.logs.steps import Step, step_of
from preflight.vocabulary.log import StepLine

GIB = 1 << 30
DIALECTS: dict[str, tuple[str, int | None, dict[str, float]]] = {
    "Megatron-LM": (
        " iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration (ms): 4321.5 | "
        "throughput per GPU (TFLOP/s/GPU): 150.3 | learning rate: 1.5E-04 | global batch size:   256 | lm loss: 7.345E+00 | "
        "loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        100,
        {"loss": 7.345, "seconds": 4.3215, "tflops": 150.3, "lr": 1.5e-4, "loss_scale": 1.0, "grad_norm": 1.234, "skipped": 0.0},
    ),
    "transformers": ("{'loss': 2.3, 'grad_norm': 1.1, 'learning_rate': 5e-05, 'epoch': 0.01}", None, {"loss": 2.3, "grad_norm": 1.1, "lr": 5e-5}),
    "transformers, strings": ("{'loss': '2.3', 'grad_norm': '1.1', 'learning_rate': '5e-05'}", None, {"loss": 2.3, "grad_norm": 1.1, "lr": 5e-5}),
    "two networks, a word each": ("[12/60] D loss: 0.4 G loss: 1.2", 12, {"d_loss": 0.4, "g_loss": 1.2}),
    "a unit before a loss": ("iter 12 mem: 3.5 G, loss: 1.2", 12, {"loss": 1.2, "memory_bytes": 3.5 * GIB}),
    "in a sentence": ("epoch 12, loss is: 0.3", None, {"loss": 0.3}),
    "tqdm": (" 12%|█▏        | 120/1000 [00:10<01:20, 10.0it/s, loss=2.3]", 120, {"loss": 2.3, "seconds": 0.1}),
    "tqdm, slow": ("Training:  12%|█▏        | 120/1000 [00:10<01:20, 4.5s/it]", 120, {"seconds": 4.5}),
    "tqdm without an end": ("18799it [11:54,  5.08s/it]", 18799, {"seconds": 5.08}),
    "Lightning": (
        "Epoch 0:  10%|█ | 100/1000 [01:00<09:00,  1.66it/s, v_num=0, train_loss=2.3]",
        100,
        {"loss": 2.3, "seconds": 1 / 1.66},
    ),
    "NeMo": (
        "Epoch 0: :  10%|█ | 100/1000 [01:00<09:00,  v_num=0, reduced_train_loss=2.3, global_step=99.0, train_step_timing in s=1.2]",
        None,
        {},
    ),
    "NeMo 2": (
        "Training epoch 0, iteration 9/99 | lr: 1e-05 | global_batch_size: 8 | global_step: 9 | reduced_train_loss: 11.0 | "
        "train_step_timing in s: 1.2 | consumed_samples: 80",
        9,
        {"lr": 1e-5, "loss": 11.0, "seconds": 1.2},
    ),
    "torchtitan": (
        "step: 10  loss:  7.9000  grad_norm:  1.2000  memory: 10.00GiB(12%)  tps: 1,234  tflops: 12.3  mfu: 3.00%",
        10,
        {"loss": 7.9, "grad_norm": 1.2, "memory_bytes": 10 * GIB, "tokens_per_second": 1234.0, "tflops": 12.3, "mfu": 3.0},
    ),
    "nanoGPT": ("iter 10: loss 9.5, time 300.00ms, mfu 12.3%", 10, {"loss": 9.5, "seconds": 0.3, "mfu": 12.3}),
    "nanoGPT, validation": ("step 100: train loss 4.1, val loss 4.2", 100, {"loss": 4.1, "val_loss": 4.2}),
    "modded nanoGPT": ("step:5/1100 train_loss:4.5 train_time:1200ms step_avg:12.3ms", 5, {"loss": 4.5}),
    "nanoGPT, numbers alone": ("100 train 8.227235", 100, {"loss": 8.227235}),
    "nanoGPT, numbers alone, validation": ("100 val 8.4982", 100, {"val_loss": 8.4982}),
    "llm.c, its file": ("s:100 trl:7.0850 lr:0.000087 norm:1.03", 100, {"loss": 7.085, "grad_norm": 1.03}),
    "llm.c": (
        "step 1/100 | loss 4.2 (+nanz)| norm 15.3 (+nanz)| lr 2.1e-7 | 300.1 ms | 30.2% bf16 MFU | 1800 tok/s",
        1,
        {"loss": 4.2, "lr": 2.1e-7, "seconds": 0.3001, "mfu": 30.2, "tokens_per_second": 1800.0},
    ),
    "litgpt": ("Epoch 1 | iter 10 step 5 | loss train: 1.2, val: n/a | iter time: 300.1 ms (step)", 10, {"loss": 1.2, "seconds": 0.3001}),
    "fairseq": (
        "epoch 001:    100 / 5000 loss=12.3, ppl=123, wps=1200, ups=1.2, num_updates=100, lr=1e-05, gnorm=2.3, loss_scale=128",
        100,
        {"loss": 12.3, "perplexity": 123.0, "tokens_per_second": 1200.0, "lr": 1e-5, "grad_norm": 2.3, "loss_scale": 128.0},
    ),
    "timm": (
        "Train: 0 [ 100/1251 (  8%)]  Loss: 6.9 (6.95)  Time: 0.5s, 2000/s (0.6s, 1900/s)  LR: 1.000e-06  Data: 0.010 (0.020)",
        100,
        {"loss": 6.9, "seconds": 0.5, "lr": 1e-6, "data_seconds": 0.01},
    ),
    "mmengine": (
        "Epoch(train)  [1][50/1000]  lr: 1.0000e-02 eta: 1:00:00 time: 0.5 data_time: 0.1 memory: 1000 loss: 2.3 loss_cls: 1.1",
        50,
        {"lr": 1e-2, "seconds": 0.5, "data_seconds": 0.1, "memory_bytes": 1000 * 2**20, "loss": 2.3, "loss_cls": 1.1},
    ),
    "detectron2": (
        "eta: 0:10:00  iter: 19  total_loss: 3.4  loss_cls: 1.1  time: 0.3  data_time: 0.01 lr: 0.0002  max_mem: 3000M",
        19,
        {"loss": 3.4, "seconds": 0.3, "data_seconds": 0.01, "lr": 2e-4, "memory_bytes": 3000 * 2**20},
    ),
    "DeepSpeed": ("step=10, skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]", 10, {"skipped": 0.0, "lr": 1e-4}),
    "DeepSpeed, throughput": (
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, MemAllocated=1.5GB, MaxMemAllocated=3.0GB",
        10,
        {"samples_per_second": 12.3, "memory_bytes": 1.5 * GIB},
    ),
    "DeepSpeed, timers": (
        "time (ms) | fwd_microstep: 12.5 | bwd_microstep: 45.5 | bwd_inner_microstep: 40.0 | step_microstep: 3.5",
        None,
        {"forward_seconds": 0.0125, "backward_seconds": 0.0455, "optimizer_seconds": 0.0035},
    ),
    "ijepa": ("[57,   210] loss: 0.086 masks: 69.0 43.9 [wd: 7.03e-02] [lr: 9.49e-04] [mem: 4.38e+04] (513.0 ms)", 210, {"loss": 0.086, "lr": 9.49e-4, "seconds": 0.513}),
    "JSON lines": ('{"step": 100, "loss": 2.3, "lr": 0.001}', 100, {"loss": 2.3, "lr": 1e-3}),
    "the tutorial": ("Epoch [1/5], Step [100/600], Loss: 2.2", 100, {"loss": 2.2, "epoch": 1.0}),
    "the MNIST example": ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300", 640, {"loss": 2.3, "epoch": 1.0}),
    "the imagenet example": ("Epoch: [0][  100/5005]\tTime  0.300 ( 0.4)\tData  0.010 ( 0.02)\tLoss 6.9e+00 (7.0e+00)", 100, {"loss": 6.9}),
    "the mean time of a step": ("step:491/1480 train_time:16559ms step_avg:33.73ms", 491, {"seconds": 0.03373}),
    "an evaluation": ("Eval metrics : accuracy: 0.809 ; loss: 0.25", None, {"val_loss": 0.25}),
    "an epoch is no step": ("Epoch [16/40], Loss: 0.0294", None, {"loss": 0.0294, "epoch": 16.0}),
    "names in brackets": ("[R0] | E5 iter[ 14/ 15] | [Loss] 51566519.44 | [step]    89 | [time] 0.4m (~5h) |[best] 0 -1", 89, {"loss": 51566519.44}),
    "names in brackets, with a total": ("[Step] 4/100, [Loss] 0.5, [LR] 1e-3", 4, {"loss": 0.5, "lr": 1e-3}),
    "negative": ("step: 7 loss: -1.25 lr: 1e-4", 7, {"loss": -1.25, "lr": 1e-4}),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "NeMo"])
def test_a_dialect_is_read(name: str) -> None:
    line, number, expected = DIALECTS[name]
    for _ in range(2):  # the second time by the form that was learnt from the first one
        found = step_of(line)
        assert found is not None
        assert found.step == number
        assert {key: found.values.get(key) for key in expected} == pytest.approx(expected)


def test_what_is_not_a_number_any_more_is_read() -> None:
    good, bad = step_of("step: 7 loss: 1.25 grad_norm: 2.0"), step_of("step: 8 loss: nan grad_norm: inf")
    assert good is not None
    assert bad is not None
    assert bad.step == 8
    assert math.isnan(bad.values["loss"])
    assert bad.values["grad_norm"] == math.inf


def test_what_is_not_a_number_is_the_value_of_a_name_and_no_part_of_the_next_one() -> None:
    found = step_of("step 13 loss nan step_time 0.0063")
    assert found is not None
    assert math.isnan(found.values["loss"])
    assert found.values["seconds"] == pytest.approx(0.0063)
    infinite = step_of("step 13 loss 2.5 grad norm inf lr 0.001")
    assert infinite is not None
    assert infinite.values["grad_norm"] == math.inf
    assert infinite.values["lr"] == pytest.approx(0.001)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "The loss of the connection is bad",
        "loss is NaN, stopping",
        "Loading checkpoint shards: 100%|██████████| 3/3 [00:05<00:00,  1.7s/it]",
        "Map: 100%|██████████| 1000/1000 [00:01<00:00, 900.0 examples/s]",
        "Downloading: 10%|█ | 10/100 [00:01<00:09, 9.9it/s]",
        "Namespace(batch_size=24, lr=0.001, epoch=200, step_size=20)",
        '/usr/lib/python3.10/site-packages/trl/trainer/reward_trainer.py:63: FutureWarning: lr is gone, step 3',
        "2024-01-31 12:00:07 DUE TO TIME LIMIT",
        "Starting step",
    ],
)  # fmt: skip
def test_what_is_no_step_is_none(line: str) -> None:
    assert step_of(line) is None


@settings(deadline=None)
@given(
    st.integers(0, 10**7),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(1e-8, 1.0),
    st.sampled_from(["step: {} loss: {} lr: {}", "iter {} | loss {} | lr {}", "{{'step': {}, 'loss': {}, 'lr': {}}}", "step={}, loss={}, lr={}"]),
)  # fmt: skip
def test_any_numbers_are_read_back(number: int, loss: float, lr: float, form: str) -> None:
    found = step_of(form.format(number, f"{loss:.4f}", f"{lr:.3e}"))
    assert found is not None
    assert found.step == number
    assert found.values["loss"] == pytest.approx(loss, abs=1e-4)
    assert found.values["lr"] == pytest.approx(lr, rel=1e-3)


def _sampled(count: int, most: int) -> list[StepLine]:
    sample = Sample(most)
    for number in range(count):
        if sample.wants(number, number):
            sample.add(StepLine(file=0, line=number, step=number, values={}))
    for number, _ in sample.passed_over():
        sample.add_last(StepLine(file=0, line=number, step=number, values={}))
    return sample.kept()


def test_few_steps_are_all_kept() -> None:
    assert [step.step for step in _sampled(500, 500)] == list(range(500))


@pytest.mark.parametrize(("count", "most"), [(10_000, 1000), (100_000, 777)])
def test_many_steps_are_kept_evenly_with_the_last_ones(count: int, most: int) -> None:
    numbers = [step.step or 0 for step in _sampled(count, most)]
    assert most // 2 <= len(numbers) <= most + TAIL
    assert numbers[-TAIL:] == list(range(count - TAIL, count))
    gaps = [after - before for before, after in pairwise(numbers[:-TAIL])]
    assert max(gaps) <= 4 * count / most
    # what alternates (ranks in turn, two kinds of line) is kept alike
    for period in (2, 8):
        shares = [sum(number % period == turn for number in numbers) for turn in range(period)]
        assert max(shares) <= 1.2 * min(shares) + 8


def test_a_bar_knows_how_much_there_is_to_do() -> None:
    assert step_of(" 12%|█▏  | 120/1000 [00:10<01:20, 10.0it/s]") == Step(120, {"seconds": 0.1}, True, 1000)


def test_metrics_below_the_line_of_their_step_belong_to_it(tmp_path: Path) -> None:
    olmo = "2024-01-01 12:00:00,000 INFO [step=12/739328,epoch=0]\n    optim/total_grad_norm=1.25\n    train/CrossEntropyLoss=2.5\nnext\n"
    timers = (
        "(min, max) time across ranks (ms):\n    forward-compute ................................: (120.50, 130.22)\n"
    )
    timers += "    optimizer ......................................: (3.50, 3.60)\nnext\n"
    (tmp_path / "a.log").write_text(olmo)
    (tmp_path / "b.log").write_text(timers)
    first, second = read_logs([tmp_path]).steps
    assert (first.step, first.values["grad_norm"], first.values["loss"]) == (12, 1.25, 2.5)
    assert (second.step, second.values["forward_seconds"], second.values["optimizer_seconds"]) == (None, 0.1205, 0.0035)


def test_metrics_without_a_step_take_that_of_the_bar_before(tmp_path: Path) -> None:
    bar = " 12%|█   | 120/1000 [00:10<01:20, 10.0it/s]"
    (tmp_path / "a.log").write_text(
        f"{bar}\r{bar}{{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}}\n{{'loss': 2.25, 'learning_rate': 5e-05}}\n"
    )
    steps = [step for step in read_logs([tmp_path]).steps if "loss" in step.values]
    assert [(step.step, step.values["loss"]) for step in steps] == [(120, 2.5), (120, 2.25)]


@pytest.mark.parametrize(
    "text",
    ["loss: 0.25, saved to /ckpt/step=100_final.pt", "step: 1e999 loss: 2", f"step: {'9' * 400} loss: 2",
     "50%|#####     | 5/10 [00:01<00:01, 1..2it/s]", "iter 1_000_ loss: 1..2"],
)  # fmt: skip
def test_what_only_looks_like_a_number_ends_nothing(text: str) -> None:
    found = step_of(text)
    assert found is None or all(value == value for value in found.values.values())


@pytest.mark.parametrize(
    ("bar", "told"),
    [
        ("Epoch 0:   0%|          | 0/100 [00:00<?, ?it/s, loss=nan, v_num=1]", False),
        ("Epoch 1:   0%|          | 0/100 [00:00<?, ?it/s, loss=nan, v_num=1]", True),
        ("Epoch 0:   1%|          | 1/100 [00:02<03:18, 2.00s/it, loss=nan, v_num=1]", True),
    ],
    ids=["before the first step", "what the epoch before left", "behind the first step"],
)
def test_a_bar_before_the_first_step_tells_no_loss_that_is_none(bar: str, told: bool) -> None:
    found = step_of(bar)
    assert found is not None
    assert ("loss" in found.values) is told
