"""What is learnt of how a model is computed, begun, trained and saved, and what another correct run may do all the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests.monitor.relations.test_habits import STEP, broken

from preflight.monitor.mini import Mini
from preflight.monitor.window import Window

NAME = "model.*.weight"
WAY = {NAME: ["Mm{model.*.weight}[0]<given", "Relu[0]<Mm{model.*.weight}", "loss<Mean"]}
CUT = {NAME: ["Mm{model.*.weight}[0]<given", "loss<Mean"]}


def flowing(*flows: Any, times: int = 9, layers: int = 2, each: int = 1) -> list[Window]:
    """A run whose first passes go these ways; nothing stands for a pass that goes as one before it did."""
    mini = Mini({f"model.{number}.weight": {} for number in range(layers)})
    told = [("backward", {"args": {"flow": flow}}) for flow in flows] + ["backward"] * (times - len(flows))
    return [mini.window(one, *["backward"] * (each - 1), STEP) for one in told]


def test_an_operation_that_is_gone_is_told_from_the_third_pass_on() -> None:
    assert broken("operations-alike", flowing(WAY, {}, {}), flowing(CUT, {}, {})) == [
        "2: Mm[0] of model.* takes the input, the loss takes Mean"
    ]
    assert not broken("operations-alike", flowing(WAY, {}, {}), flowing(WAY, {}, {}))


def test_a_way_that_is_gone_now_and_then_is_no_habit() -> None:
    assert not broken("operations-alike", flowing(WAY, {}, {}), flowing(WAY, CUT, {}))
    assert not broken("operations-alike", flowing(WAY, CUT, {}), flowing(CUT, {}, {}))
    other = {"model.head": ["Relu[0]<Mm{model.head}"], **WAY}
    assert not broken("operations-alike", flowing(WAY, other, {}), flowing({}, {}, {}))


def test_an_amount_that_the_command_line_chose_is_a_setting() -> None:
    def clipped(least: str, most: str, *options: str) -> list[Window]:
        windows = flowing({NAME: [f"Clamp(min={least} max={most})[0]<Exp", "loss<Mean"]}, {}, {})
        windows[0].run.begin["argv"] = ["python", "train.py", *options]
        return windows

    learnt = clipped("0.8", "1.2")
    assert broken("operations-alike", learnt, clipped("0.9", "1.1"))
    assert not broken("operations-alike", learnt, clipped("0.9", "1.1", "--clip-range=0.1"))
    assert not broken("operations-alike", learnt, clipped("0.8", "3", "--limit", "3"))
    assert broken("operations-alike", learnt, clipped("0", "1", "--scale", "1"))
    assert not broken("operations-alike", clipped("0.9", "1.1", "--clip-range=0.1"), learnt)


def test_attention_that_is_computed_by_several_operations_is_not_held_against_one_that_is_not() -> None:
    one = {NAME: ["ScaledDotProduct(is_causal=True)[0]<Mm{model.*.weight}", "loss<Mean"]}
    parts = {NAME: ["SafeSoftmax(-1)<Mm{model.*.weight}", "loss<Mean"]}
    assert not broken("operations-alike", flowing(one, {}, {}), flowing(parts, {}, {}))
    assert not broken("operations-alike", flowing(parts, {}, {}), flowing(one, {}, {}))
    seen = {NAME: [one[NAME][0].replace("True", "False"), "loss<Mean"]}
    assert broken("operations-alike", flowing(one, {}, {}), flowing(seen, {}, {}))


def mode(**told: Any) -> list[Window]:
    mini = Mini({"model.weight": {}})
    forward = ("forward model", {"context": "grad", "args": {"training": True, **told}})
    return [mini.window(forward, "backward", STEP) for _ in range(6)]


def test_a_model_of_which_nothing_drops_is_not_held_to_drop() -> None:
    drops, rests = mode(dropouts=2, dropout=2), mode(dropouts=2, dropout=0)
    assert not broken("arguments-constant", drops, mode())
    assert not broken("arguments-constant", mode(), drops)
    assert broken("arguments-constant", drops, rests)


def test_batches_may_be_fetched_ahead() -> None:
    def stepping(*calls: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window(*calls, STEP) for _ in range(8)]

    passed = ("forward model", "backward")
    learnt = stepping("fetch", *passed)
    assert not broken("calls-in-order", learnt, stepping("fetch", *passed, "fetch", *passed))
    assert not broken("calls-in-order", learnt, stepping("fetch", "fetch", *passed, *passed))
    assert broken("calls-in-order", learnt, stepping("fetch", *passed, *passed))


def test_fewer_looks_and_deeper_models_say_nothing() -> None:
    assert not broken("operations-alike", flowing(WAY, {}, {}), flowing(CUT, {}))
    assert not broken("operations-alike", flowing(WAY, {}, {}), flowing(CUT, {}, {}, layers=3))
    assert broken("operations-alike", flowing(WAY, {}, {}, each=2), flowing(CUT, {}, {})), (
        "how many passes, is a setting"
    )


def test_a_layer_that_takes_part_in_one_run_alone_is_not_asked_of() -> None:
    more = {**WAY, "model.head": ["Relu[0]<Mm{model.head}"]}
    assert not broken("operations-alike", flowing(more, {}, {}), flowing(WAY, {}, {}))
    assert not broken("operations-alike", flowing(WAY, {}, {}), flowing(more, {}, {}))


def beginning(norm: float, width: int = 32, layers: int = 1, rows: Any = ()) -> list[Window]:
    shape = {"shape": [width, width], "numel": width * width}
    mini = Mini({f"model.{number}.weight": shape for number in range(layers)})
    before = ("before", {f"model.{number}.weight": norm for number in range(layers)})
    return [mini.window(*rows, "backward", before, STEP), mini.window("backward", STEP)]


@pytest.mark.parametrize("width", [16, 64, 128])
def test_a_wider_model_may_begin_smaller_or_with_numbers_of_the_same_size(width: int) -> None:
    drawn_alike, by_inputs = 0.02 * width, 1.0 * width**0.5
    assert not broken("beginnings-alike", beginning(0.02 * 32), beginning(drawn_alike, width))
    assert not broken("beginnings-alike", beginning(32**0.5), beginning(by_inputs, width))
    assert broken("beginnings-alike", beginning(0.02 * 32), beginning(by_inputs, width))
    assert broken("beginnings-alike", beginning(32**0.5), beginning(0.0, width))


def test_a_deeper_model_and_a_run_that_goes_on_may_begin_in_another_way() -> None:
    loads = ("load_state_dict optimizer0:SGD", {"args": {"state": 2}})
    assert not broken("beginnings-alike", beginning(1.0), beginning(4.0, layers=3))
    assert not broken("beginnings-alike", beginning(1.0), beginning(4.0, rows=[loads]))
    assert broken("beginnings-alike", beginning(1.0), beginning(4.0))


def test_a_training_may_begin_with_the_weights_of_another_one() -> None:
    weights = ("load_state_dict model", {"args": {}})
    assert not broken("beginnings-alike", beginning(1.0), beginning(4.0, rows=[weights]))
    assert not broken("beginnings-alike", beginning(4.0, rows=[weights]), beginning(1.0))
    assert broken("beginnings-alike", beginning(1.0, rows=[weights]), beginning(4.0, rows=[weights]))


@pytest.mark.parametrize("width", [8, 128])
def test_numbers_may_be_drawn_in_proportion_to_a_size(width: int) -> None:
    assert not broken("beginnings-alike", beginning(1.0), beginning(1.0, width))


def grouped(*settings: dict[str, Any], kind: str = "AdamW", options: Any = ({}, {})) -> list[Window]:
    mini = Mini({"model.fc.weight": {}, "model.fc.bias": {"group": len(settings) - 1}})
    told = {"index": 0, "groups": list(settings), "options": list(options)}
    made = (f"optimizer.new optimizer0:{kind}", {"args": told})
    return [mini.window(*rows, "backward", f"step optimizer0:{kind}") for rows in ([made], [], [])]


def test_rates_and_how_much_decay_there_is_are_settings() -> None:
    learnt = grouped({"lr": 0.1, "weight_decay": 0.1})
    assert not broken("groups-alike", learnt, grouped({"lr": 0.5, "weight_decay": 0.01}))
    assert broken("groups-alike", learnt, grouped({"lr": 0.1, "weight_decay": 0.1}, kind="Adam"))


@pytest.mark.parametrize("word", ["weight_decay", "momentum"])
def test_what_no_group_has_is_a_setting_and_what_one_of_them_lacks_is_not(word: str) -> None:
    alone, none = grouped({"lr": 0.1, word: 0.1}), grouped({"lr": 0.1, word: 0.0})
    apart = grouped({"lr": 0.1, word: 0.1}, {"lr": 0.1, word: 0.0})
    turned = grouped({"lr": 0.1, word: 0.0}, {"lr": 0.1, word: 0.1})
    assert not broken("groups-alike", alone, none)
    assert not broken("groups-alike", none, alone)
    assert not broken("groups-alike", apart, grouped({"lr": 0.1, word: 0.0}, {"lr": 0.1, word: 0.0}))
    assert broken("groups-alike", apart, turned)
    assert broken("groups-alike", alone, apart)


def test_groups_that_are_no_longer_apart_are_told() -> None:
    apart = grouped({"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "weight_decay": 0.0})
    assert broken("groups-alike", apart, grouped({"lr": 0.1, "weight_decay": 0.1}))
    slower = grouped({"lr": 0.1}, {"lr": 0.01})
    assert not broken("groups-alike", slower, grouped({"lr": 0.3}, {"lr": 0.01}))
    assert broken("groups-alike", slower, grouped({"lr": 0.1}, {"lr": 0.1}))
    assert not broken("groups-alike", grouped({"lr": 0.1}, {"lr": 0.1}), grouped({"lr": 0.3}, {"lr": 0.1}))


def test_factors_of_two_averages_that_were_exchanged_are_told() -> None:
    right, wrong = ({"betas": [0.9, 0.99], "on": []},), ({"betas": [0.99, 0.9], "on": []},)
    assert broken("groups-alike", grouped({"lr": 0.1}, options=right), grouped({"lr": 0.1}, options=wrong))


def saving(*files: tuple[str, dict[str, str]]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    calls = [("save", {"args": {"kind": "dict", "file": name, "parts": parts}}) for name, parts in files]
    return [mini.window(STEP, *calls)]


def test_a_file_is_compared_with_those_of_its_name_alone() -> None:
    whole = {"model": "model", "optimizer": "optimizer", "best": "number"}
    early = {"model": "model", "optimizer": "optimizer without state", "best": "NoneType"}
    learnt = saving(("out/step_10.pt", whole))
    assert not broken("checkpoints-alike", learnt, saving(("other/step_250.pt", early)))
    assert not broken("checkpoints-alike", learnt, saving(("out/weights.pt", {"model": "model"})))
    assert broken("checkpoints-alike", learnt, saving(("out/step_20.pt", {"model": "model", "best": "number"})))


def test_more_than_was_saved_is_no_mistake_nor_is_a_part_that_the_run_has_not() -> None:
    plain = {"model": "model", "optimizer": "optimizer"}
    scaled = {**plain, "scaler": "scaler", "plan": "scheduler"}

    def run(parts: dict[str, str], *names: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        saved = ("save", {"args": {"kind": "dict", "file": "last.pt", "parts": parts}})
        return [mini.window(*names, "backward", STEP), mini.window("backward", STEP, saved)]

    made = ("scheduler.new StepLR", "scaler.step")
    assert not broken("checkpoints-alike", run(plain), run(scaled))
    assert not broken("checkpoints-alike", run(scaled, *made), run(plain))
    assert broken("checkpoints-alike", run(scaled, *made), run(plain, *made))
    assert broken("checkpoints-alike", run(plain), run({"model": "optimizer", "optimizer": "optimizer"}))


def weighing(*numbers: Any, options: Any = ()) -> list[Window]:
    """A run whose first passes multiply by these numbers at one place; None where no number is told."""
    mini = Mini({"model.weight": {}})
    mini.run.begin["argv"] = ["python", "train.py", *options]
    told = [
        {"flow": {"model.weight": ["loss<Mul"]}, **({"factors": {"model.weight|Mul<Mean": one}} if one else {})}
        for one in numbers
    ]
    passes = [("backward", {"args": one}) for one in (*told, *[{"flow": {}}] * (4 - len(told)))]
    return [mini.window(one, STEP) for one in [*passes, *["backward"] * 4]]


def test_a_weight_of_a_term_is_compared_where_both_tell_it_and_no_option_chose_it() -> None:
    assert broken("factors-alike", weighing(0.07), weighing(0.7)) == ["2: 0.7"]
    assert not broken("factors-alike", weighing(0.07), weighing(None)), "a size may explain it there"
    assert not broken("factors-alike", weighing(0.07), weighing(0.7, options=["--weight=0.7"]))
    assert not broken("factors-alike", weighing(0.07, options=["--weight", "0.07"]), weighing(0.7))


def test_a_weight_that_a_plan_moves_is_no_habit() -> None:
    assert not broken("factors-alike", weighing(0.07), weighing(0.1, 0.2, 0.3))
    assert not broken("factors-alike", weighing(0.1, 0.2, 0.3), weighing(0.7))
    assert not broken("factors-alike", weighing(0.1, None, 0.1), weighing(0.7))


def sharing(*shares: float, name: str = "tokens.next") -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("backward", ("scalar", name, "train.py:9#0", one), STEP) for one in shares]


def test_only_what_is_the_other_way_round_is_told() -> None:
    always, never, sometimes = sharing(*[1.0] * 8), sharing(*[0.0] * 8), sharing(*[0.9] * 8)
    assert broken("shares-alike", always, never) == ["2: never"]
    assert not broken("shares-alike", always, sometimes)
    assert not broken("shares-alike", sometimes, never)
    assert not broken("shares-alike", always, sharing(0.0, 0.0, 1.0, 0.0))
    assert not broken("shares-alike", sharing(1.0, 1.0), never)


def tied(**shared: int) -> list[Window]:
    names = ("words", "head", "tail")
    mini = Mini({f"model.{name}.weight": {"shared": shared.get(name, -1)} for name in names})
    return [mini.window("backward", STEP) for _ in range(2)]


def test_a_tie_that_is_gone_and_one_that_is_new_are_told() -> None:
    assert not broken("ties-alike", tied(head=0), tied(head=0))
    assert broken("ties-alike", tied(head=0), tied()) == ["0: none is another one"]
    assert broken("ties-alike", tied(), tied(tail=1)) == ["0: model.tail.weight is model.head.weight"]


def through(*parts: tuple[str, dict[str, Any]], training: bool = True, passes: int = 5) -> list[Window]:
    mini = Mini({"model.weight": {}})
    inside = [(f"module model.{name}", {"args": {"training": training, **told}}) for name, told in parts]
    forward = ("forward model", {"args": {"training": training}, "inside": inside})
    return [mini.window(forward, "backward", STEP) for _ in range(passes)]


LINEAR, ACTS = ("body.0", {"type": "Linear"}), ("act", {"type": "ReLU"})


def test_a_layer_that_is_not_called_and_one_that_is_set_otherwise_are_told() -> None:
    again = ("body.1", {"type": "Linear"})
    learnt = through(LINEAR, ACTS)
    assert broken("layers-alike", learnt, through(LINEAR)) == ["2: model.body.* (Linear)"]
    assert not broken("layers-alike", learnt, through(LINEAR, again, ACTS))
    assert not broken("layers-alike", learnt, through(LINEAR, passes=2))
    assert not broken("layers-alike", learnt, through(LINEAR, training=False))
    one_way = ("body.0", {"type": "Linear", "settings": "no affine"})
    assert broken("layers-alike", learnt, through(one_way, ACTS))


@pytest.mark.parametrize("kind", ["Dropout", "Dropout2d", "AlphaDropout", "DropPath", "StochasticDepth"])
def test_a_rate_of_zero_leaves_out_what_drops_and_is_a_setting(kind: str) -> None:
    drops, other = ("body.1", {"type": kind}), ("body.1", {"type": "Identity"})
    assert not broken("layers-alike", through(LINEAR, drops), through(LINEAR))
    assert not broken("layers-alike", through(LINEAR), through(LINEAR, drops))
    assert not broken("layers-alike", through(LINEAR, drops), through(LINEAR, other))


def clipping(*limits: float, schedule: str = "", argv: Any = ()) -> list[Window]:
    mini = Mini({"model.weight": {}})
    mini.run.begin["argv"] = list(argv)
    made = [(f"scheduler.new {schedule}", {"args": {"optimizer": "optimizer0:SGD"}})] if schedule else []
    clips = [("clip_grad_norm", {"args": {"max_norm": limit, "norm_type": 2.0}}) for limit in limits]
    return [mini.window(*([] if number else made), "backward", clip, STEP) for number, clip in enumerate(clips)]


def test_a_limit_that_moves_or_that_the_command_line_chose_is_a_setting() -> None:
    learnt = clipping(*[1.0] * 6)
    assert broken("settings-alike", learnt, clipping(*[10.0] * 6)) == ["2: 10.0"]
    assert not broken("settings-alike", learnt, clipping(*[10.0] * 6, argv=["train.py", "--clip", "10"]))
    assert not broken("settings-alike", learnt, clipping(*[5.0] * 6))
    assert broken("settings-alike", learnt, clipping(*[-1.0] * 6)) == ["2: -1.0"]
    assert not broken("settings-alike", learnt, clipping(3.0, 2.0, 1.5, 1.2, 1.1, 1.0))
    assert not broken("settings-alike", clipping(3.0, 2.0, 1.5, 1.2, 1.1, 1.0), clipping(*[10.0] * 6))


def test_another_kind_of_schedule_is_told_and_one_more_than_none_is_not() -> None:
    learnt = clipping(*[1.0] * 6, schedule="LinearLR")
    assert broken("settings-alike", learnt, clipping(*[1.0] * 6, schedule="StepLR")) == ["2: StepLR"]
    assert not broken("settings-alike", clipping(*[1.0] * 6), learnt)
