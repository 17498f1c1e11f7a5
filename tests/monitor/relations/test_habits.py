"""What is learnt of one run of a program, and what another correct run of it may do all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.learn.crossrun import learn
from preflight.monitor.learn.evidence import Evidence, Observed
from preflight.monitor.learn.statements import statements
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.monitor.scope import scope_of
from preflight.monitor.window import Window

KINDS = relations()
NLL = [["NllLoss", [], None, [1]], ["LogSoftmax", [8, 4], 1, [2]], ["Addmm", [8, 4], None, []]]
TWICE = [*NLL[:2], ["Softmax", [8, 4], 1, [3]], NLL[2]]
DIVIDED = [["Div", [], None, [1]], *NLL]
STEP = "step optimizer0:SGD"


def broken(name: str, learnt: Iterable[Window], checked: Iterable[Window]) -> list[str]:
    """What is said of a run by what was learnt of another."""
    kind = KINDS[name]
    evidence, examples = Evidence(name), Examples([kind])
    for window in learnt:
        for _, found, where in examples.see(window):
            for example in found:
                evidence.see(example, where.iteration)
    engine = Engine(statements(kind, evidence))
    for window in checked:
        engine.see(window)
    engine.finish()
    return [f"{one.first_step}: {one.seen}" for one in engine.violations()]


def passes(*tails: Any, times: int = 9, each: int = 1) -> list[Window]:
    """A run whose first passes end in these ways, one in each iteration."""
    mini = Mini({"model.weight": {}})
    told = [("backward", {"args": {"tail": tail}}) for tail in tails] + ["backward"] * (times - len(tails))
    return [mini.window(one, *["backward"] * (each - 1), STEP) for one in told]


def test_a_softmax_too_many_is_told_from_the_third_pass_on() -> None:
    assert broken("losses-end-alike", passes(NLL), passes(TWICE)) == [
        "2: LogSoftmax(2, -1) NllLoss Softmax(2, -1)".replace("LogSoftmax", "Addmm(2) LogSoftmax")
    ]


def test_an_end_that_comes_now_and_then_is_no_habit() -> None:
    assert not broken("losses-end-alike", passes(NLL), passes(NLL, TWICE))
    assert not broken("losses-end-alike", passes(NLL, TWICE), passes(DIVIDED))


def test_how_a_loss_ends_is_asked_whether_batches_are_accumulated_or_not() -> None:
    for each, other in ((1, 4), (4, 1), (4, 4)):
        assert not broken("losses-end-alike", passes(DIVIDED, each=each), passes(NLL, each=other))
        divided = [["Div", [], None, [1]], *([name, size, dim, [4]] for name, size, dim, _ in TWICE)]
        assert broken("losses-end-alike", passes(NLL, each=each), passes(divided, each=other))


def test_a_division_that_comes_with_accumulation_is_missed_only_where_there_is_one() -> None:
    assert broken("losses-divided-alike", passes(DIVIDED, each=4), passes(NLL, each=2)) == ["1: passed back as it is"]
    assert broken("losses-divided-alike", passes(DIVIDED), passes(NLL, each=4)), "a division by one stands there, too"
    assert not broken("losses-divided-alike", passes(DIVIDED, each=4), passes(NLL))
    assert not broken("losses-divided-alike", passes(DIVIDED), passes(DIVIDED, each=4))
    assert not broken("losses-divided-alike", passes(NLL, each=4), passes(DIVIDED, each=4)), "it is no habit"
    assert not broken("losses-divided-alike", passes(DIVIDED, NLL, each=4), passes(NLL, each=4))


def test_what_lays_out_or_drops_numbers_is_no_part_of_a_loss() -> None:
    laid = [NLL[0], ["View", [8, 4], None, [2]], ["NativeDropout", [8, 4], None, [3]], *NLL[1:]]
    assert not broken("losses-end-alike", passes(NLL), passes(laid))
    wrapped = [*NLL[:2], ["_DDPSink", [8, 4], None, [3]], NLL[2]]
    assert not broken("losses-end-alike", passes(NLL), passes(wrapped))


def test_a_graph_that_is_too_long_to_be_told_whole_says_nothing() -> None:
    long = [["Add", [], None, [number + 1]] for number in range(40)]
    assert not broken("losses-end-alike", passes(long), passes(NLL))
    assert not broken("losses-end-alike", passes(NLL), passes(long))


def gradients(*norms: dict[str, float | None]) -> list[Window]:
    mini = Mini({name: {} for name in norms[0]})
    return [mini.window(("gradients", each), STEP) for each in norms]


def test_an_expert_without_gradients_is_one_by_chance_and_all_are_a_mistake() -> None:
    good = {"model.expert.0": 0.5, "model.expert.1": 0.5, "model.head": 0.5}
    idle = {**good, "model.expert.1": None}
    cut = {**idle, "model.expert.0": None}
    assert not broken("parameters-alike", gradients(*[good] * 9), gradients(*[idle] * 9))
    told = set(broken("parameters-alike", gradients(*[good] * 9), gradients(*[cut] * 9)))
    assert told == {"2: not all alike", "2: gets no gradients"}, "of the model, and of its experts"


def test_a_head_that_takes_part_by_chance_is_not_missed_where_it_does_not() -> None:
    both, one = {"model.body": 0.5, "model.head": 0.5}, {"model.body": 0.5, "model.head": None}
    sometimes = [both, both, both, both, one, both, both, one, both]
    assert not broken("parameters-alike", gradients(*sometimes), gradients(*[one] * 9))
    assert not broken("parameters-alike", gradients(*[both] * 9), gradients(*sometimes))


def test_the_gradients_below_weights_that_begin_at_zero_come_later() -> None:
    late, good = {"model.down": 0.0, "model.up": 0.5}, {"model.down": 0.5, "model.up": 0.5}
    run = [late, late, *[good] * 7]
    assert not broken("parameters-alike", gradients(*run), gradients(*run))
    assert broken("parameters-alike", gradients(*run), gradients(*[late] * 9))


def test_what_is_thawed_later_on_is_no_mistake() -> None:
    frozen, thawed = {"model.body": None, "model.head": 0.5}, {"model.body": 0.5, "model.head": 0.5}
    assert not broken("parameters-alike", gradients(*[frozen] * 9), gradients(*[frozen] * 9, *[thawed] * 9))
    assert broken("parameters-alike", gradients(*[frozen] * 9), gradients(*[thawed] * 9))


def test_a_copy_that_follows_in_every_other_step_is_no_habit() -> None:
    def run(*bits: int) -> list[Window]:
        mini = Mini({"model.weight": {}, "copy.weight": {"optimizer": -1}})
        return [mini.window(("before", {"copy.weight": (1.0, one)}, {"optimizer": -1}), STEP) for one in bits]

    follows, rests, sometimes = range(14), [1] * 14, [one // 2 for one in range(14)]
    assert broken("parameters-alike", run(*follows), run(*rests))
    assert not broken("parameters-alike", run(*follows), run(*sometimes))
    assert not broken("parameters-alike", run(*sometimes), run(*rests))


def test_a_copy_of_what_steps_leave_as_it_is_has_nothing_to_follow() -> None:
    names = ("net.0.weight", "net.0.bias")
    unheld = {"optimizer": -1, "trainable": False}

    def run(trained: int, copied: int) -> list[Window]:
        """A network whose bias moves by so much in each step, as its average does."""
        mini = Mini({**{name: {} for name in names}, **{name.replace("net", "ema"): unheld for name in names}})
        found = []
        for step in range(12):
            own = {names[0]: (1.0, 100 + step), names[1]: (1.0, trained * step)}
            after = {names[0]: (1.0, 101 + step), names[1]: (1.0, trained * (step + 1))}
            average = {"ema.0.weight": (1.0, 500 + step), "ema.0.bias": (1.0, 900 + copied * step)}
            aside = ("before", average, {"optimizer": -1})
            found.append(mini.window("backward", aside, ("before", own, {"optimizer": 0}), STEP, ("after", after)))
        return found

    assert not broken("parameters-alike", run(1, 1), run(0, 0))
    assert [one for one in broken("parameters-alike", run(1, 1), run(1, 0)) if "not all alike" in one]


def evaluated(training: bool, **told: Any) -> list[Window]:
    mini = Mini({"model.weight": {}})
    run = ("forward model", {"args": {"training": training, **told}, "context": "nograd"})
    return [mini.window("forward model", "backward", STEP, run, run) for _ in range(3)]


def test_an_evaluation_in_training_mode_is_told_where_the_mode_makes_a_difference() -> None:
    assert not broken("passes-alike", evaluated(False), evaluated(True))
    assert broken("passes-alike", evaluated(False), evaluated(True, norms=1)) == [
        "0: training mode with norms of the batch"
    ]
    assert not broken("passes-alike", evaluated(True, dropout=True), evaluated(False))


def test_a_model_that_is_called_in_some_iterations_may_be_left_out() -> None:
    def run(*calls: bool) -> list[Window]:
        mini = Mini({"model.weight": {}})
        return [mini.window("forward model", *["forward critic"] * one, STEP) for one in calls]

    assert broken("models-take-part", run(*[True] * 12), run(*[False] * 12)) == ["5: model alone"]
    assert not broken("models-take-part", run(*[True, False, True] * 4), run(*[False] * 12))
    assert not broken("models-take-part", run(*[True] * 12), run(*[False, False, False, False, True] * 3))


def test_what_a_step_did_that_nobody_looked_at_is_no_change_between_steps() -> None:
    def run(*looks: int, drift: int = 0) -> list[Window]:
        mini = Mini({"model.weight": {}})
        windows = []
        for number in range(14):
            before = ("before", {"model.weight": (1.0, number + drift * number)}, {"optimizer": 0})
            after = ("after", {"model.weight": (1.0, number + 1)}, {"optimizer": 0})
            windows.append(mini.window(before, STEP, *[after] * (number in looks)))
        return windows

    assert not broken("parameters-alike", run(*range(14)), run(1, 5, 6, 9))
    assert broken("parameters-alike", run(*range(14)), run(*range(14), drift=1))


def test_one_of_two_models_may_be_trained_in_every_fifth_iteration() -> None:
    def run(*recorded: bool) -> list[Window]:
        mini = Mini({"model.weight": {}})
        contexts = ["grad" if one else "nograd" for one in recorded]
        return [mini.window(("forward maker", {"context": one}), "backward", STEP) for one in contexts]

    assert not broken("passes-alike", run(*[True] * 12), run(*[False, False, False, False, True] * 3))
    assert broken("passes-alike", run(*[True] * 12), run(*[False] * 12)) == ["5: without gradients"]
    assert broken("passes-alike", run(*[False] * 12), run(*[True] * 12)) == ["0: with gradients"]


def test_the_first_step_of_an_optimizer_that_comes_later_is_not_counted() -> None:
    def run(others: int) -> list[Window]:
        mini = Mini({"model.weight": {}, "head.weight": {"optimizer": 1}})
        first = [mini.window("backward", STEP) for _ in range(others)]
        return first + [mini.window("backward", "step optimizer1:Adam") for _ in range(8)]

    assert not broken("calls-per-step", run(1), run(4))


def test_the_loss_of_an_actor_may_be_below_zero_though_it_never_was() -> None:
    def run(loss: float, *names: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        tail = [[name, [], None, [place + 1]] for place, name in enumerate(names)]
        told = ("backward", {"args": {"tail": [*tail, ["Addmm", [8, 4], None, []]]}})
        return [mini.window(told, ("loss", loss), STEP) for _ in range(40)]

    assert not broken("number-sign", run(0.5, "Neg", "Mean"), run(-0.5, "Neg", "Mean"))
    assert broken("number-sign", run(0.5, "Mean", "NllLoss"), run(-0.5, "Mean", "NllLoss"))


def test_scales_and_models_of_several_runs_are_learnt_though_they_differ() -> None:
    def given(size: float) -> list[Window]:
        mini, windows = Mini({"model.weight": {}}), []
        for _ in range(8):
            window = mini.window(("forward model", {"args": {"training": True}}), STEP)
            told = {"object": "model", "position": "in0", "shape": (16, 16), "requires_grad": False, "norm": 16 * size}
            window.tensors = mini.window(("tensor", {**told, "call": window.calls[0].q})).tensors
            windows.append(window)
        return windows

    def called(*names: str, at_times: str = "") -> list[Window]:
        mini = Mini({"model.weight": {}})
        each = [[*names, *[at_times] * bool(at_times and number % 2)] for number in range(12)]
        return [mini.window(*(f"forward {name}" for name in called_), STEP) for called_ in each]

    for name, runs, good, bad in (
        ("inputs-alike", [given(1), given(2)], given(0.5), given(64)),
        (
            "models-take-part",
            [called("a", "b"), called("a", "b", at_times="c")],
            called("a", "b", "d"),
            called("a", "c"),
        ),
    ):
        learnt = learn([observed(name, run) for run in runs], {name: KINDS[name]}).invariants
        for expected, windows in ((False, good), (True, bad)):
            engine = Engine(learnt)
            for window in windows:
                engine.see(window)
            assert bool(engine.violations()) is expected


def observed(name: str, windows: Iterable[Window]) -> Observed:
    """What is seen of one run."""
    examples, found = Examples([KINDS[name]]), Observed()
    for window in windows:
        for _, judged, where in examples.see(window):
            for example in judged:
                found.see(name, example, where.iteration, scope_of(where))
    return found


def broken_of_runs(name: str, runs: Iterable[Iterable[Window]], checked: Iterable[Window]) -> list[str]:
    """What is said of a run by what was learnt of several others."""
    engine = Engine(learn([observed(name, run) for run in runs], {name: KINDS[name]}).invariants)
    for window in checked:
        engine.see(window)
    engine.finish()
    return [f"{one.first_step}: {one.seen}, not {one.expected}" for one in engine.violations()]


def losses(*values: float, each: int = 1, batch: int = 16, resumed: bool = False) -> list[Window]:
    mini, windows = Mini({"model.weight": {}}), []
    start = [("load_state_dict optimizer0:SGD", {"args": {"state": 2}})] if resumed else []
    for number, value in enumerate(values):
        told = [("loss", value), "backward"] * each
        window = mini.window(*(start if not number else []), "forward model", *told, STEP)
        given = {"object": "model", "position": "in0", "shape": (batch, 4), "call": window.named("forward")[0].q}
        window.tensors = mini.window(("tensor", given)).tensors
        windows.append(window)
    return windows


def test_of_one_run_nobody_knows_how_far_apart_good_ones_lie() -> None:
    assert not broken_of_runs("magnitudes-alike", [losses(2, 2, 2)], losses(200, 200, 200))
    assert broken_of_runs("magnitudes-alike", [losses(2, 2, 2)] * 2, losses(200, 200, 200)) == [
        "2: about 2.2e+02, not about 2"
    ]


def test_a_loss_of_either_sign_has_no_size() -> None:
    def run(value: float, end: str, at: str = "train.py:9") -> list[Window]:
        mini = Mini({"model.weight": {}})
        tail = [["Neg", [], None, [1]], ["Mean", [], None, [2]], [end, [8, 1], None, [-1]]]
        passed = ("backward", {"args": {"tail": tail}, "place": f"/home/me/{at}"})
        return [mini.window("forward model", ("scalar", "loss", at, value), passed, STEP) for _ in range(3)]

    assert broken_of_runs("magnitudes-alike", [run(0.1, "Abs")] * 2, run(4.0, "Abs"))
    assert not broken_of_runs("magnitudes-alike", [run(0.1, "Addmm")] * 2, run(4.0, "Addmm"))
    assert not broken_of_runs("magnitudes-alike", [run(-0.1, "Abs")] * 2, run(4.0, "Abs"))


def test_a_run_may_lie_outside_of_others_by_as_much_as_these_lie_apart() -> None:
    near, far = [losses(2, 2, 2), losses(2, 2, 2)], [losses(2, 2, 2), losses(2, 2, 2), losses(9, 9, 9)]
    assert not broken_of_runs("magnitudes-alike", near, losses(3.9, 3.9, 3.9))
    assert broken_of_runs("magnitudes-alike", near, losses(7.5, 7.5, 7.5))
    wide = [losses(2, 2, 2), losses(3.5, 3.5, 3.5)] * 2
    assert not broken_of_runs("magnitudes-alike", wide, losses(6.5, 6.5, 6.5))
    assert broken_of_runs("magnitudes-alike", wide, losses(0.3, 0.3, 0.3))
    assert not broken_of_runs("magnitudes-alike", far, losses(64, 64, 64)), "the runs do not agree"


def test_first_losses_tell_nothing_where_a_setting_decides_over_their_size() -> None:
    good = [losses(2, 2, 2)] * 2
    assert not broken_of_runs("magnitudes-alike", good, losses(64, 64, 64, batch=512))
    assert not broken_of_runs("magnitudes-alike", good, losses(64, 64, 64, each=4))
    assert not broken_of_runs("magnitudes-alike", good, losses(64, 64, 64, resumed=True))
    assert not broken_of_runs("magnitudes-alike", good, losses(64, 2, 2)), "it swings too much"
    assert not broken_of_runs("magnitudes-alike", good, losses(0, 0, 0)), "nothing is of no size"


def stepped(*counts: int, rest: int = 0, loader: bool = True, scaled: int = 0) -> list[Window]:
    """Steps after so many passes, and at the end of the data after what is left over."""
    mini = Mini({"model.weight": {}})
    one = [*["fetch loader0"] * loader, "backward"]
    begins, windows = ["loop loader0"] * loader, []
    for _ in range(6):
        for number, count in enumerate([*counts, *[rest] * bool(rest)]):
            skips = ["scaler.step optimizer0:SGD"] * (scaled if number == 1 else 0)
            windows.append(mini.window(*(begins if not number else []), *one * count, *skips, STEP))
    return windows


def test_a_condition_that_is_turned_round_steps_after_uneven_numbers_of_passes() -> None:
    good = stepped(4, 4, 4, 4)
    told = broken("passes-even", good, stepped(1, 1, 2, 1, 1, 2))
    assert told
    assert told[0].endswith("another number of passes")
    assert not broken("passes-even", good, stepped(2, 2, 2, 2))
    assert not broken("passes-even", good, stepped(4, 4, 4, rest=1)), "what is left over is less"
    assert not broken("passes-even", stepped(4, 2, 4, 4), stepped(1, 1, 2, 1)), "it was no habit"
    assert not broken("passes-even", good, stepped(1, 2, 1, scaled=2)), "a step was skipped"
    loose = stepped(4, 4, 4, loader=False)
    assert not broken("passes-even", loose, stepped(4, 4, 4, rest=1, loader=False)), "nobody sees where the data end"


def test_forward_passes_are_passed_back_however_many_there_are() -> None:
    def run(*calls: str) -> list[Window]:
        mini = Mini({"model.weight": {}})
        told = ("forward model", {"args": {"training": True}})
        return [mini.window(*(told if call == "forward" else call for call in calls), STEP) for _ in range(8)]

    each, last = run(*["forward", "backward"] * 4), run(*["forward"] * 4, "backward")
    assert broken("forwards-passed-back", each, last) == ["0: several together or not at all"]
    for other in (run("forward", "backward"), run(*["forward", "backward"] * 2)):
        assert not broken("forwards-passed-back", each, other), "how many there are is a setting"
        assert not broken("forwards-passed-back", other, run("forward", "backward"))
    assert not broken("forwards-passed-back", last, each)
    assert not broken("forwards-passed-back", run("forward", "backward"), last), "one pass tells nothing of several"


def weighed(
    *weighs: bool, argv: str = "", constants: dict[str, float] | None = None, resumed: bool = False
) -> list[Window]:
    """A run whose first looks at the graph tell so of the weight of a term."""
    mini = Mini({"model.weight": {}})
    mini.run.begin.update(argv=["python", *argv.split()])
    mini.run.notes["settings"] = [{"options": {"weight": 0.5}, "constants": constants or {}}]
    flow = {"model.weight": ["loss<Add"]}
    looks: list[Any] = [
        ("backward", {"args": {"flow": flow, "weights": {"model.weight|Mul<Mean": one}}}) for one in weighs
    ]
    start = [("load_state_dict optimizer0:SGD", {"args": {"state": 2}})] if resumed else []
    return [mini.window(*start, one, STEP) for one in [*looks, *[("backward", {"args": {"flow": {}}})] * 6]]


def test_a_term_whose_weight_never_comes_in_is_told_and_one_that_comes_in_late_is_not() -> None:
    told = broken("terms-weigh-alike", weighed(True), weighed(False))
    assert told == ["2: zero in every look"]
    assert not broken("terms-weigh-alike", weighed(False), weighed(True)), "what begins at zero is no habit"
    assert not broken("terms-weigh-alike", weighed(False, True), weighed(True))
    assert not broken("terms-weigh-alike", weighed(True), weighed(False, True))


def test_a_weight_of_zero_that_somebody_chose_is_a_setting() -> None:
    assert not broken("terms-weigh-alike", weighed(True), weighed(False, argv="train.py --beta 0"))
    assert not broken("terms-weigh-alike", weighed(True), weighed(False, constants={"BETA": 0.0}))
    assert broken("terms-weigh-alike", weighed(True), weighed(False, argv="train.py --seed 0", constants={"SEED": 0}))
    assert not broken("terms-weigh-alike", weighed(True), weighed(False, resumed=True))


def flowing(names: Iterable[str], *edges: str) -> list[Window]:
    """A run of a model with parameters of these names, whose loss comes about in this way."""
    mini = Mini({f"model.{name}.weight": {} for name in names})
    look = ("backward", {"args": {"flow": {"model.weight": sorted(edges)}}})
    return [mini.window(one, STEP) for one in [look, *[("backward", {"args": {"flow": {}}})] * 7]]


@pytest.mark.parametrize("form", ["blocks.{}.attend", "blocks.{}.mlp.0", "body.{}"])
def test_a_deeper_model_is_held_to_what_its_blocks_do_where_there_were_several(form: str) -> None:
    good, bad = ("loss<Mean", "Mean[0]<Relu"), ("loss<Mean", "Mean[0]<Mm")
    for layers in range(1, 4):
        for others in range(1, 6):
            learnt, checked = ([form.format(number) for number in range(count)] for count in (layers, others))
            assert not broken("operations-alike", flowing(learnt, *good), flowing(checked, *good))
            alarmed = bool(broken("operations-alike", flowing(learnt, *good), flowing(checked, *bad)))
            same, several = layers == others, min(layers, others) > 1 and "{}." in form
            assert alarmed is (same or several), (layers, others)


def in_turns(times: int, clips: bool = True) -> list[Window]:
    """Iterations in which a critic steps so many times before its generator, each with an Adam of its own."""
    mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": 1}})
    clip: list[Any] = [("clip_grad_norm", {"place": "train.py:6"})] if clips else []
    critic = ["zero_grad optimizer0:Adam", ("backward", {"place": "train.py:5"}), *clip, "step optimizer0:Adam"]
    maker = ["zero_grad optimizer1:Adam", ("backward", {"place": "train.py:8"}), *clip, "step optimizer1:Adam"]
    return [mini.window(*critic * times, *maker) for _ in range(8)]


@pytest.mark.parametrize("name", ["calls-per-step", "step-contains"])
def test_how_often_a_critic_steps_is_a_setting(name: str) -> None:
    for times, other in ((1, 5), (5, 1), (2, 3)):
        assert not broken(name, in_turns(times), in_turns(other))
        assert broken(name, in_turns(times), in_turns(other, clips=False))


def of_rates(*rates: float, argv: Iterable[str] = ()) -> list[Window]:
    """A run whose optimizer is made with a group for each rate."""
    mini = Mini({f"model.part{number}.weight": {"group": number} for number in range(len(rates))})
    mini.run.begin["argv"] = list(argv)
    groups = [{"lr": rate} for rate in rates]
    made = ("optimizer.new optimizer0:SGD", {"args": {"index": 0, "groups": groups, "options": [{} for _ in rates]}})
    return [mini.window(made, "backward", STEP), *(mini.window("backward", STEP) for _ in range(3))]


def test_a_group_that_is_left_without_a_rate_is_told() -> None:
    assert broken("groups-alike", of_rates(0.1, 0.3), of_rates(0.1, 0.0)) == ["0: not all alike"]


def test_another_rate_and_a_rate_of_zero_that_somebody_chose_are_settings() -> None:
    assert not broken("groups-alike", of_rates(0.1, 0.3), of_rates(0.2, 0.7))
    chosen = of_rates(0.1, 0.0, argv=["python", "train.py", "--body-lr", "0"])
    assert not broken("groups-alike", of_rates(0.1, 0.3), chosen)


@pytest.mark.parametrize("options", [{"lr": 0.3, "body_lr": 0.3}, {"lr": 0.3, "body-lr-factor": 1.0}])
def test_rates_of_groups_that_options_set_alike_are_settings(options: dict[str, float]) -> None:
    alike = of_rates(0.3, 0.3)
    assert broken("groups-alike", of_rates(0.1, 0.3), alike)
    alike = of_rates(0.3, 0.3)
    alike[0].run.notes["settings"] = [{"options": {"lr": 0.3, "body_epochs": 0.3}}]
    assert broken("groups-alike", of_rates(0.1, 0.3), alike)
    alike = of_rates(0.3, 0.3)
    alike[0].run.notes["settings"] = [{"options": options}]
    assert not broken("groups-alike", of_rates(0.1, 0.3), alike)


def test_rates_that_are_all_zero_when_an_optimizer_is_made_come_from_a_schedule() -> None:
    assert not broken("groups-alike", of_rates(0.1, 0.1), of_rates(0.0, 0.0))


def copied(*behind: int, argv: Iterable[str] = ()) -> list[Window]:
    """A run with a copy that is so many steps behind the trained weights before each step."""
    mini = Mini({"model.weight": {}, "target.weight": {"optimizer": -1, "trainable": False}})
    mini.run.begin["argv"] = list(argv)
    return [
        mini.window(
            "backward",
            ("before", {"model.weight": (1.0, step)}, {"optimizer": 0}),
            ("before", {"target.weight": (1.0, max(step - by, 0))}, {"optimizer": -1}),
            STEP,
        )
        for step, by in enumerate(behind)
    ]


def test_a_copy_that_is_overwritten_with_every_step_is_told() -> None:
    assert broken("copies-stay-apart", copied(*[1] * 8), copied(*[0] * 8)) == [
        "3: is the same as what it was copied from at each step"
    ]


def test_a_copy_that_is_brought_on_now_and_then_is_none_of_both() -> None:
    assert not broken("copies-stay-apart", copied(*[1] * 8), copied(0, 1, 0, 1, 0, 1, 0, 1))
    assert not broken("copies-stay-apart", copied(*[0] * 8), copied(*[1] * 8))


def test_a_copy_that_somebody_chose_to_bring_on_with_every_step_is_left_alone() -> None:
    chosen = copied(*[0] * 8, argv=["python", "train.py", "--target-every", "1"])
    assert not broken("copies-stay-apart", copied(*[1] * 8), chosen)


def test_a_look_at_a_copy_alone_says_nothing_of_it() -> None:
    run = copied(*[1] * 8)
    run[4].states = [one for one in run[4].states if (one.extra or {}).get("optimizer") == -1]
    assert not broken("copies-stay-apart", copied(*[1] * 8), run)
