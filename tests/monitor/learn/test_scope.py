"""Scopes and consequences: a program's habits are its own, and a person reads each thing once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.learn.crossrun import learn
from preflight.monitor.learn.evidence import Observed
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.monitor.scope import covers, program_of, scope_of
from preflight.monitor.views.options import is_named, matters, numbers_of, options_of
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant

KINDS = {name: kind for name, kind in relations().items() if kind.learns}
LOOP = ("fetch loader0", "forward", "zero_grad optimizer0:SGD", "backward", "clip_grad_norm", "step optimizer0:SGD")


def training(kind: str, *left_out: str, layers: int = 1, times: int = 6) -> Iterator[Window]:
    mini = Mini({f"model.{number}.weight": {"module": "Linear"} for number in range(layers)})
    forward = ("forward model", {"context": "grad", "args": {"type": kind, "training": True}})
    for _ in range(times):
        yield mini.window(*(forward if call == "forward" else call for call in LOOP if call not in left_out))


def observed(*runs: Iterator[Window]) -> list[Observed]:
    found = []
    for windows in runs:
        examples, evidence = Examples(KINDS.values()), Observed()
        names = list(KINDS)
        for window in windows:
            for number, judged, where in examples.see(window):
                for example in judged:
                    evidence.see(names[number], example, where.iteration, scope_of(where, KINDS[names[number]].needs))
        found.append(evidence)
    return found


def alarms(invariants: list[Invariant], windows: Iterator[Window]) -> set[str]:
    engine = Engine(invariants)
    for window in windows:
        engine.see(window)
    engine.finish()
    return {one.relation for one in engine.violations()}


def models(window: Window) -> str:
    """The scope without what the parameters are called."""
    return scope_of(window).partition(", 1 name")[0].partition(", 2 names")[0]


def test_the_scope_is_the_models_that_are_trained_whatever_their_size() -> None:
    one, wider = (list(training("Net", layers=layers)) for layers in (1, 2))
    assert scope_of(one[0]) == scope_of(wider[0]) == "Net of Linear, 1 name of parameters (2ddbe8a5)"
    assert scope_of(next(training("Sequential", layers=2))).startswith("Sequential of 2 Linear, 1 name of parameters")
    assert scope_of(next(training("Sequential", layers=2))).endswith(" for SGD")


def test_models_of_one_class_are_told_apart_by_the_names_of_their_parameters() -> None:
    def told(*names: str) -> str:
        window = Mini({name: {} for name in names}).window(("forward model", {"args": {"type": "Net"}}), "backward")
        return scope_of(window)

    assert told("model.0.weight", "model.1.weight") == told("model.0.weight")
    assert told("model.0.weight", "model.0.bias") != told("model.0.weight")


def test_a_layer_that_no_optimizer_has_is_in_the_scope_of_a_model_that_is_called() -> None:
    mini = Mini({"model.body": {"module": "Linear"}, "model.head": {"module": "Adapter", "optimizer": -1}})
    told = (("Net", "Net of Adapter, Linear"), ("Sequential", "Sequential of 1 Adapter, 1 Linear"))
    for kind, scope in told:
        assert models(mini.window(("forward model", {"args": {"type": kind}}), "backward")) == scope


def test_a_program_that_makes_its_steps_by_hand_has_the_scope_of_the_models_that_it_calls() -> None:
    mini = Mini()
    assert scope_of(mini.window("backward")) == "nothing"
    assert scope_of(mini.window(("forward model", {"args": {"type": "Net"}}), "backward")).startswith("Net, 0 names")


def test_a_habit_of_one_program_is_not_asked_of_another() -> None:
    learnt = learn(observed(training("Net")), KINDS).invariants
    assert alarms(learnt, training("Net", "clip_grad_norm", times=3)) == {"calls-per-step"}
    assert not alarms(learnt, training("Net", layers=3, times=9))
    assert not alarms(learnt, training("Other", "clip_grad_norm", times=3))


def test_a_habit_of_many_programs_is_not_asked_of_another_one() -> None:
    many = learn(observed(*(training(f"Net{number}") for number in range(5))), KINDS).invariants
    assert many
    assert all("model" in one.subject for one in many)
    assert not alarms(many, training("Other", "clip_grad_norm", times=9))


def test_each_thing_is_said_once() -> None:
    learnt = learn(observed(training("Net")), KINDS).invariants
    said = sorted(one.text.partition(" (in")[0] for one in learnt)
    assert said == [
        "Of the parameters of model, none is another one",
        "all of model is trained by an optimizer",
        "backward comes before each clip_grad_norm_ of SGD",
        "backward occurs once between two steps of SGD",
        "clip_grad_norm_ occurs once between two steps of SGD",
        "fetch comes before each forward of SGD",
        "forward comes before each backward of SGD",
        "model is run with gradients in the first iterations",
        "model is trained in training mode, when dropout is none",
        "zero_grad comes before the first backward of SGD",
        "zero_grad occurs once between two steps of SGD",
    ]


@pytest.mark.parametrize(
    ("argv", "directory", "name"),
    [
        (["python", "-u", "cases/case_03_bug.py", "--epochs", "3"], "/home/me", "case_3"),
        (["python", "case_03_fixed.py"], "/home/me", "case_3"),
        (["python", "skip-gram_v2.py"], "/home/me", "skip_gram"),
        (["python", "moco_good_seed1.py"], "/home/me", "moco"),
        (["python", "moco/other_config/train.py"], "/home/me", "moco"),
        (["python", "-m", "package.wgan"], "/home/me", "wgan"),
        (["python", "-m", "package.train"], "/home/me", "package"),
        (["python", "wgan.py", "-m", "large"], "/home/me", "wgan"),
        (["python", "train.py"], "/home/me/gpt", "gpt"),
        (["python", "src/train.py"], "/home/me/gpt", "gpt"),
        (["python", "gpt/train.py"], "/home/me", "gpt"),
        (["python", "/home/me/gpt/run_1/main.py"], "/elsewhere", "gpt"),
        (["python", "C:\\me\\gpt\\train.py"], "C:\\elsewhere", "gpt"),
        (["python", "run_1.py"], "/", ""),
        (["python", "gpt/train.py"], None, ""),
        (["python", "gpt/vae.py"], None, "vae"),
        (["python", "-c", "train()"], "/home/me", ""),
        ([], "/home/me", ""),
    ],
)
def test_a_program_is_called_the_same_in_each_of_its_versions(
    argv: list[str], directory: str | None, name: str
) -> None:
    assert program_of(argv, directory) == name


def by(script: str, *left_out: str, kind: str = "Net", library: bool = False) -> Iterator[Window]:
    """A script that trains a model, of a class of its own or a library's."""
    mini = Mini({"model.0.weight": {"module": "Linear"}})
    mini.run.begin.update(argv=["python", *script.split()])
    root = ("root model", {"args": {"type": kind, **({"library": True} if library else {})}})
    forward = ("forward model", {"context": "grad", "args": {"type": kind, "training": True}})
    calls = [forward if call == "forward" else call for call in LOOP if call not in left_out]
    for number in range(9):
        yield mini.window(*([root] if not number else []), *calls)


def scoped(script: str, **more: Any) -> str:
    return scope_of(next(by(script, **more)))


@pytest.mark.parametrize(("kind", "library"), [("Sequential", False), ("BertModel", True)])
def test_scripts_of_a_model_that_many_train_are_told_apart_by_their_name(kind: str, library: bool) -> None:
    assert scoped("moco_bug.py", kind=kind, library=library) == scoped("moco_fixed.py", kind=kind, library=library)
    assert scoped("moco.py", kind=kind, library=library) != scoped("vae.py", kind=kind, library=library)


def test_a_model_of_its_own_class_tells_a_program_whatever_its_script_is_called() -> None:
    assert scoped("train.py") == scoped("clipping_dropped.py")


def test_a_copy_in_another_folder_is_the_same_program_where_its_model_tells_so() -> None:
    def told(kind: str, folder: str) -> str:
        window = next(training(kind))
        window.run.begin.update(argv=["python", "train.py"], directory=f"/home/me/{folder}")
        return scope_of(window)

    assert told("Net", "one") == told("Net", "other")
    assert told("Sequential", "one") != told("Sequential", "other")


def test_a_librarys_model_that_another_script_trains_is_not_held_to_the_habits_of_the_first() -> None:
    learnt = learn(observed(by("pretrain.py", library=True)), KINDS).invariants
    assert alarms(learnt, by("pretrain_v2.py", "clip_grad_norm", library=True)) == {"calls-per-step"}
    assert not alarms(learnt, by("finetune.py", "clip_grad_norm", library=True))


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("train.py --epochs 3 --width 64 --seed 1 --gpu 0", ()),
        ("train.py --clip 1.0 --lr 0.1", ("clip on",)),
        ("train.py --clip=0.5 --lr 0", ("clip on",)),
        ("train.py --grad_clip 0", ("grad-clip off",)),
        ("train.py --no-clip --amp -v", ("amp on", "no-clip on")),
        ("train.py --accumulate 1 --dropout 0 --loss L1", ("loss l1",)),
        ("train.py trainer.precision=bf16 model.width=8 ema=null", ("ema null", "trainer.precision bf16")),
        ("train.py --shuffle False --example 3", ("shuffle off",)),
        ("train.py clip", ()),
    ],
)
def test_options_that_turn_habits_on_or_off_are_told_and_sizes_are_not(words: str, chosen: tuple[str, ...]) -> None:
    assert options_of(["python", *words.split()]) == chosen


def test_a_run_in_which_an_option_turned_a_habit_off_is_not_held_to_it() -> None:
    learnt = learn(observed(by("gpt.py --clip 1.0")), KINDS).invariants
    assert alarms(learnt, by("gpt.py --clip 0.5 --width 8", "clip_grad_norm")) == {"calls-per-step"}
    assert not alarms(learnt, by("gpt.py --clip 0", "clip_grad_norm"))


@pytest.mark.parametrize(
    ("words", "known", "chosen"),
    [
        ("train.py", {"clip": 1.0, "amp": False, "width": 8}, ("clip on",)),
        ("train.py --clip 0.5", {"clip": 0.5, "amp": False}, ("clip on",)),
        ("train.py --clip 0 --amp", {"clip": 0.0, "amp": True}, ("amp on",)),
        (
            "train.py",
            {"optim.warmup_steps": 10, "loss": "L1", "ema_path": "runs/one/average.pt"},
            ("loss l1", "optim.warmup-steps on"),
        ),
        ("train.py --bf16", {"lr": 0.1}, ("bf16 on",)),
        ("train.py --huber --verbose --device cpu", {"huber": True, "verbose": True, "device": "cpu"}, ("huber on",)),
        ("train.py", {"huber": False, "norm": "group", "optimizer": "sgd", "q": True}, ("norm group",)),
        ("train.py --huber --use-tqdm", {}, ("huber on",)),
        ("train.py", {"aux": 0.0, "dropout": 0.0, "momentum": 0, "workers": 0, "clip": 0.0}, ("aux zero",)),
        ("train.py --aux 0.5 --smoothing 0", {"aux": 0.5, "smoothing": 0.0}, ("smoothing zero",)),
    ],
)
def test_an_option_that_nobody_gave_is_what_it_is_by_default(
    words: str, known: dict[str, Any], chosen: tuple[str, ...]
) -> None:
    assert options_of(["python", *words.split()], known) == chosen


def set_to(script: str, options: dict[str, Any], *left_out: str) -> Iterator[Window]:
    """A script of which it is known what its options came to be."""
    for window in by(script, *left_out):
        window.run.notes.setdefault("settings", [{"options": options, "constants": {"TEMPERATURE": 0.2}}])
        yield window


def test_a_run_whose_options_are_named_is_held_to_what_was_learnt_with_the_same_ones_by_default() -> None:
    learnt = learn(observed(set_to("gpt.py", {"clip": 1.0})), KINDS).invariants
    assert alarms(learnt, set_to("gpt.py --clip 0.5", {"clip": 0.5}, "clip_grad_norm")) == {"calls-per-step"}
    assert not alarms(learnt, set_to("gpt.py --clip 0", {"clip": 0.0}, "clip_grad_norm"))


def test_an_option_matters_to_those_who_can_see_what_it_turns_on() -> None:
    assert matters("clip on", {"clip_grad_norm", "step"})
    assert not matters("grad-clip off", {"flow", "backward"})
    assert not matters("max-clip-norm on", {"flow", "backward"})
    assert matters("clip-vloss on", {"flow", "backward"})
    assert matters("aux zero", {"flow", "backward"})
    assert matters("penalty zero", {"autograd.grad", "step"})
    assert not matters("aux zero", {"clip_grad_norm", "step"})
    assert matters("tie on", {"step", "backward"})
    assert matters("precision bf16", {"flow", "backward"})
    assert matters("huber on", {"flow", "backward"})
    assert not matters("huber on", {"fetch", "backward"})
    window = next(set_to("gpt.py", {"clip": 1.0}))
    assert scope_of(window).endswith(", with clip on")
    assert not scope_of(window, frozenset({"flow"})).endswith("clip on")
    assert covers(scope_of(window, frozenset({"flow"})), scope_of(window))
    assert not covers(scope_of(window), scope_of(window, frozenset({"flow"})))


def test_numbers_that_somebody_chose_are_those_of_options_and_constants() -> None:
    window = next(set_to("gpt.py --seed 7 --weight 0.3", {"weight": 0.3, "margin": 0.04, "width": 48, "epochs": 9}))
    assert {0.3, 0.7, 0.04, 0.2, 5.0} <= numbers_of(window)
    assert not {7.0, 48.0, 9.0} & numbers_of(window)


@pytest.mark.parametrize(
    ("kind", "script", "options", "named"),
    [
        ("SGD", "train.py", {"opt": "sgd"}, True),
        ("SGD", "train.py --sgd", {}, True),
        ("SGD", "train.py", {"optim.sgd": True}, True),
        ("SGD", "train.py", {"optim.sgd": False}, False),
        ("AdamW", "train.py optimizer=adamw_fused", {}, True),
        ("AdamW", "train.py", {"optimizer": "adam"}, True),
        ("RMSprop", "train.py", {"optimizer": "adam"}, False),
        ("Adagrad", "train.py", {"name": "ada", "of": "a"}, False),
    ],
)
def test_an_optimizer_that_an_option_names_is_a_setting(
    kind: str, script: str, options: dict[str, Any], named: bool
) -> None:
    assert is_named(kind, next(set_to(script, options)).run) is named


def test_a_replica_is_trained_as_the_model_is_by_one_process() -> None:
    mini = Mini({"model.0.weight": {"module": "Linear"}}, world=2)
    told = {"type": "DistributedDataParallel", "inner": "Net"}
    forward = ("forward model", {"args": {"type": "DistributedDataParallel", "training": True}})
    wrapped = mini.window(("root model", {"args": told}), forward, "backward", "step optimizer0:SGD")
    assert scope_of(wrapped) == scope_of(next(training("Net")))
    assert scope_of(mini.window(forward)) == scope_of(wrapped), "it stays so"
