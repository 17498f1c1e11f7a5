"""What only looks like an error gives no alarm: another module of the same name, rows that are missing."""

from __future__ import annotations

from typing import Any

from preflight.monitor.judging.engine import Engine
from preflight.monitor.library_of import general
from preflight.monitor.mini import Mini
from preflight.monitor.window import Window


def alarms(name: str, windows: list[Window]) -> int:
    engine = Engine(map(general, [name]))
    for window in windows:
        engine.see(window)
    engine.finish()
    return len(engine.violations())


LOAD: Any = ("load_state_dict model", {"args": {"matched": 2, "missing": [], "unexpected": []}})
LOADED: Any = ("loaded", {"model.a": (1.0, 7), "model.b": (1.0, 8)})
OTHERS: Any = ("before", {"model.a": (1.3, 5), "model.b": (0.6, 9)})
CALLED: Any = ("root model", {"args": {"type": "Net"}})


def after_a_load(*rows: Any, before: tuple[Any, ...] = ()) -> list[Window]:
    mini = Mini({"model.a": {}, "model.b": {}})
    return [mini.window(*before), mini.window(LOAD, LOADED, *rows, "backward", OTHERS, "step optimizer0:SGD")]


def test_a_new_model_of_the_same_name_has_not_lost_what_the_old_one_loaded() -> None:
    assert alarms("loaded-stays", after_a_load(CALLED, before=(CALLED,))) == 0
    assert alarms("loaded-stays", after_a_load(CALLED, CALLED)) == 0
    assert alarms("loaded-stays", after_a_load(CALLED)) == 1


def test_a_model_that_was_trained_before_its_best_weights_came_back_may_begin_anew() -> None:
    assert alarms("loaded-stays", after_a_load(before=("backward", "step optimizer0:SGD"))) == 0
    assert alarms("loaded-stays", after_a_load(before=("backward",))) == 1


def followed(*rows: Any, context: str = "nograd", kind: str = "float32") -> list[Window]:
    """A network without an optimizer that moves with each step and never equalled the trained one."""
    unheld = {**UNHELD, "dtype": kind}
    mini = Mini({**{f"online.{at}.weight": {} for at in (0, 2)}, **{f"slow.{at}.weight": unheld for at in (0, 2)}})
    windows = [mini.window(*rows)]
    for step in range(4):
        used = ("forward slow", {"context": context})
        own = ("before", {f"online.{at}.weight": (1.0, 10 * at + step) for at in (0, 2)}, {"optimizer": 0})
        slow = ("before", {f"slow.{at}.weight": (1.1, 500 * at + 100 + step) for at in (0, 2)}, {"optimizer": -1})
        windows.append(mini.window(used, "backward", own, slow, "step optimizer0:SGD"))
    return windows


UNHELD: Any = {"optimizer": -1, "trainable": False}


def test_a_network_may_follow_from_elsewhere_where_weights_were_loaded_or_it_is_trained_by_hand() -> None:
    assert alarms("averages-begin-as-copies", followed()) == 1
    assert alarms("averages-begin-as-copies", followed(kind="bfloat16")) == 0  # a copy that was rounded
    assert alarms("averages-begin-as-copies", followed("load")) == 0
    assert alarms("averages-begin-as-copies", followed(context="grad")) == 0


def test_a_part_of_a_gradient_has_a_smaller_norm_than_the_whole_that_is_clipped_by() -> None:
    assert alarms("clipping-by-own-norm", clipped_by_hand(None)) == 1
    assert alarms("clipping-by-own-norm", clipped_by_hand({"kind": "sharded", "ranks": [0]})) == 0


def clipped_by_hand(spread: dict[str, Any] | None) -> list[Window]:
    mini = Mini({"model.weight": {"spread": spread}})
    given = {"max_norm": 1.0, "norm_type": None, "given": True, "optimizers": [0], "of": [1]}
    rows: list[Any] = [("clip_grad_norm", {"args": given}), ("scalar", "grad_norm", "train.py:9", 2.0)]
    rows += [("gradients", {"model.weight": 0.7}), "step optimizer0:SGD"]
    return [mini.window("backward", *rows) for _ in range(2)]


def counted(steps: list[tuple[int, float]]) -> list[Window]:
    """Steps of a run's own count at which an optimizer has a count; the steps between them are missing."""
    mini = Mini({"model.weight": {}})
    found = []
    for number, count in steps:
        state = ("states", {"model.weight": 0.5}, {"optimizer": 0, "steps": [count]})
        window = mini.window("step optimizer0:Adam", state)
        window.calls = [call._replace(s=number) for call in window.calls]
        found.append(window)
    return found


def test_missing_rows_make_no_count_grow_too_fast() -> None:
    assert alarms("state-continues", counted([(0, 1.0), (2, 3.0), (4, 5.0), (6, 7.0)])) == 0
    assert alarms("state-continues", counted([(0, 1.0), (1, 3.0), (2, 5.0)])) == 1


def two_losses(*rows: Any, rounds: int = 3) -> list[Window]:
    """Rounds of two networks of which the second one's gradients were 0.4 at its last step."""
    mini = Mini({"coder.a": {}, "coder.b": {}, "judge.weight": {"optimizer": 1}})
    last = (("gradients", {"judge.weight": 0.4}, {"optimizer": 1}), "step optimizer1:Adam")
    return [mini.window(*rows, *last) for _ in range(rounds)]


def passes_of_two(own: tuple[float, float], thrown: float, *more: Any) -> tuple[Any, ...]:
    return (
        "zero_grad optimizer0:Adam",
        ("backward", {"place": "vae.py:5"}),
        ("thrown", {"judge.weight": thrown}, {"optimizer": 1}),
        "zero_grad optimizer1:Adam",
        ("added", {"coder.a": 0.5, "coder.b": 0.3}),
        ("backward", {"place": "vae.py:9"}),
        *more,
        ("gradients", {"coder.a": own[0], "coder.b": own[1]}, {"optimizer": 0}),
        "step optimizer0:Adam",
    )


def test_gradients_that_were_changed_by_other_hands_follow_no_other_loss() -> None:
    name = "losses-kept-apart"
    assert alarms(name, two_losses(*passes_of_two((0.7, 0.3), 0.9))) == 1
    for call in ("clip_grad_norm", "clip_grad_value", "scaler.unscale", "scaler.step", "collective.all_reduce"):
        assert alarms(name, two_losses(*passes_of_two((0.7, 0.3), 0.9, call))) == 0
    assert alarms(name, two_losses(*passes_of_two((0.25, 0.15), 0.9))) == 0  # halved by hand
    assert alarms(name, two_losses(*passes_of_two((0.7, 0.3), 0.4))) == 0  # what is cleared was there at the last step


def test_the_last_loss_before_a_step_is_its_own() -> None:
    rows = (*passes_of_two((0.5, 0.3), 0.9)[:6], "step optimizer1:Adam", ("backward", {"place": "vae.py:14"}))
    step = (("gradients", {"coder.a": 0.7, "coder.b": 0.4}, {"optimizer": 0}), "step optimizer0:Adam")
    mini = Mini({"coder.a": {}, "coder.b": {}, "judge.weight": {"optimizer": 1}})
    told = ("gradients", {"judge.weight": 0.4}, {"optimizer": 1})
    assert alarms("losses-kept-apart", [mini.window(*rows[:6], told, *rows[6:], *step) for _ in range(3)]) == 0


def test_an_average_that_moved_while_nobody_looked_moved_at_the_steps() -> None:
    mini = Mini({"model.weight": {}, "teacher.weight": {"optimizer": -1, "trainable": False}})
    held = iter([(50, 50), None, None, (53, 54), (54, 54)])
    windows = []
    for step, pair in enumerate(held):
        rows: list[Any] = ["backward"]
        if pair is not None:
            amidst, before = ({"teacher.weight": (1.0, bits)} for bits in pair)
            trained = ("before", {"model.weight": (1.0 + step, 7 + step)}, {"optimizer": 0})
            rows += [("amidst", amidst, {"optimizer": -1}), "backward", trained, ("before", before, {"optimizer": -1})]
        windows.append(mini.window(*rows, "step optimizer0:SGD"))
    assert alarms("averages-wait-for-steps", windows) == 0


def test_a_teacher_that_is_read_twice_in_a_step_is_not_known_to_rest_before_it_moved() -> None:
    def read(*bits: int) -> list[Window]:
        mini = Mini({"model.weight": {}, "model.teacher.weight": UNHELD})
        passed: Any = ("forward model.teacher", {"context": "nograd", "args": {"dropouts": 1, "dropout": 1}})
        looks: list[Any] = [("before", {"model.teacher.weight": (1.0, one)}, {"optimizer": -1}) for one in bits]
        return [mini.window(passed, passed, "backward", look, "step optimizer0:SGD") for look in looks]

    assert alarms("reference-in-evaluation", read(1, 2, 3)) == 0
    assert alarms("reference-in-evaluation", read(1, 1, 1)) == 1


def stepped(optimizer: str, *moves: bool) -> list[Window]:
    """Steps of an optimizer after which the weights are others, or the same."""
    mini = Mini({"model.a": {}, "model.b": {}})
    windows, value = [], 1
    for moves_on in moves:
        before: Any = {name: (float(value), value) for name in ("model.a", "model.b")}
        value += moves_on
        after: Any = {name: (float(value), value) for name in ("model.a", "model.b")}
        gradients: Any = ("gradients", {"model.a": 0.5, "model.b": 0.4})
        windows.append(mini.window(gradients, ("before", before), f"step optimizer0:{optimizer}", ("after", after)))
    return windows


def test_an_optimizer_of_the_program_may_gather_gradients_over_several_steps() -> None:
    gathering = [False, False, True] * 6
    assert alarms("step-updates", stepped("Gathering", *gathering)) == 0
    assert alarms("step-updates", stepped("SGD", *gathering)) == 1
    assert alarms("step-updates", stepped("Own", *[False] * 18)) == 1
    assert alarms("step-updates", stepped("Own", *[True] * 6, *[False] * 3)) == 1


def grown(used: tuple[str, ...]) -> list[Window]:
    """Steps of one optimizer, and of another one in the last iteration, whose pass these layers take part in."""
    mini = Mini({f"net.{name}.weight": {} for name in ("old", "new")})
    windows = []
    for number in range(6):
        last = number == 5
        parts = used if last else ("old", "new")
        inside = [(f"module net.{name}", {"inside": (entering(name),)}) for name in parts]
        forward: Any = ("forward net", {"inside": inside, "args": {"training": True}})
        norms = {f"net.{name}.weight": 0.5 if name == "new" or not last else None for name in ("old", "new")}
        index = 1 if last else 0
        gradients: Any = ("gradients", norms, {"optimizer": index})
        window = mini.window(forward, "backward", gradients, f"step optimizer{index}:SGD")
        modules = {call.object: call.q for call in window.calls}
        window.tensors = [one._replace(call=modules[one.object]) for one in window.tensors]
        windows.append(window)
    return windows


def entering(name: str) -> Any:
    norm = {"old": 1.0, "new": 2.0}[name]  # one is given what the other makes of its input
    return ("tensor", {"object": f"net.{name}", "position": "in0", "requires_grad": False, "norm": norm})


def test_a_layer_that_an_earlier_phase_used_took_no_part_in_the_first_step_of_the_next_one() -> None:
    assert alarms("gradients-reach", grown(used=("new",))) == 0
    assert alarms("gradients-reach", grown(used=("old", "new"))) == 1


def weighed(other: str) -> list[Window]:
    """A product of a critic's error, which a square of the same loss trains, with something computed from this."""
    tail: Any = [["Add", [], None, [1, 2]], ["Mean", [], None, [3]], ["Mean", [], None, [4]]]
    tail += [["Mul", [8], None, [5, 6]], ["Pow", [8], None, [6]], [other, [8], None, [8]], ["Sub", [8], None, [-1, 7]]]
    tail += [["Addmm", [8, 1], None, []], ["Addmm", [8, 4], None, []]]
    mini = Mini({"model.weight": {}})
    return [mini.window(("backward", {"args": {"tail": tail}}), "step optimizer0:SGD")]


def test_a_multiplier_that_is_learnt_may_weigh_what_is_left_of_a_constraint() -> None:
    assert alarms("advantages-are-numbers", weighed("Exp")) == 0
    assert alarms("advantages-are-numbers", weighed("Gather")) == 1


def read_again(context: str) -> list[Window]:
    """Evaluations that read one batch for its inputs and once more for its labels, before the next step."""
    mini = Mini({"model.weight": {}})
    windows = []
    for step in range(2):
        rows: list[Any] = [("loader.new held", {"args": {"samples": 64, "batch_size": 2, "order": "sequential"}})]
        for epoch in (2 * step, 2 * step + 1):
            told = {"epoch": epoch, "fetch": 0}
            same = {"loader": "held", **told, "indices": [1, 2], "bits": [7], "shapes": [[2, 8]]}
            rows += [("fetch held", {"args": told, "context": context}), ("batch", same)]
        new = {"loader": "own", "epoch": 0, "fetch": step, "indices": [step, 9], "bits": [step], "shapes": [[2, 8]]}
        own = ("fetch own", {"args": {"epoch": 0, "fetch": step}})
        windows.append(mini.window(*rows, own, ("batch", new), "forward model", "backward", "step optimizer0:SGD"))
    return windows


def test_what_was_fetched_without_gradients_is_not_trained_on() -> None:
    assert alarms("batches-advance", read_again("nograd")) == 0
    assert alarms("batches-advance", read_again("grad")) == 1


def passed_over(*rows: Any) -> list[Window]:
    """Steps on batches of one loader, with passes of another kind before the last one."""
    mini = Mini({"model.weight": {}, "average.weight": UNHELD})
    drops = {"args": {"training": True, "dropouts": 1, "dropout": 1}}
    train: Any = ("fetch loader0", ("forward model", drops), "backward", "step optimizer0:SGD")
    told = [row if isinstance(row, str) else (row[0], {**drops, **row[1]}) for row in rows]
    return [*(mini.window(*train) for _ in range(5)), mini.window(*told), mini.window(*train)]


def test_passes_with_gradients_are_an_evaluation_only_where_nothing_can_come_of_them() -> None:
    other: Any = ("fetch loader1", ("forward model", {"context": "grad"}))
    assert alarms("evaluation-mode", passed_over(*other, *other)) == 1
    assert alarms("evaluation-mode", passed_over(*other)) == 0  # with the next batch of the training, in one loss
    assert alarms("evaluation-mode", passed_over(*other, *other, "backward")) == 0
    assert alarms("evaluation-mode", passed_over(*other, *other, "autograd.grad")) == 0
    assert alarms("evaluation-mode", passed_over(*other, other[1])) == 0  # two views of one batch
    skipped: Any = ("fetch loader0", other[1])
    assert alarms("evaluation-mode", passed_over(*skipped, *skipped)) == 0


def test_a_copy_of_a_trained_model_is_evaluated_in_passes_over_a_loader() -> None:
    acts: Any = ("forward average", {"context": "nograd"})
    assert alarms("evaluation-mode", passed_over("fetch loader1", acts)) == 1
    assert alarms("evaluation-mode", passed_over(acts)) == 0  # on what the training was given last


def read_beside(**told: int) -> list[Window]:
    """Steps of a model, beside which another one of other shapes, at rest, is read in training mode."""
    mini = Mini({"model.weight": {}, "teacher.weight": {**UNHELD, "shape": [8, 4]}})
    read = ("forward teacher", {"context": "nograd", "args": {"training": True, **told}})
    rests = ("before", {"teacher.weight": (1.0, 7)}, {"optimizer": -1})
    return [mini.window(read, "forward model", "backward", rests, "step optimizer0:SGD") for _ in range(4)]


def test_a_model_at_rest_may_estimate_its_statistics_or_have_none() -> None:
    assert alarms("reference-in-evaluation", read_beside(norms=2, norm=2)) == 1
    assert alarms("reference-in-evaluation", read_beside(norms=2, norm=2, estimating=2)) == 0
    assert alarms("reference-in-evaluation", read_beside(norms=2, norm=0)) == 0
    assert alarms("reference-in-evaluation", read_beside()) == 0


def untaught(
    how: str = "exit", body: float | None = 0.5, steps: int = 24, moves: int = 0, apart: int = 50
) -> list[Window]:
    """Looks, so many steps apart, at a body and a head, of which a loss is computed that nothing comes to, and that is moved by hand or not."""
    mini = Mini({"net.body.weight": {}, "net.head.weight": {}})
    over = ("scalar", "term.over", "train.py:6#0#l1_loss#Abs#net.head.weight", 1.0)
    rows = ("backward", ("gradients", {"net.body.weight": body, "net.head.weight": None}))
    looks = [("before", {"net.head.weight": (1.0, 7 + step * moves)}, {"optimizer": 0}) for step in range(steps)]
    windows = [mini.window(*rows, look, *["step optimizer0:SGD"] * apart, over) for look in looks]
    return [*windows, mini.window(("note", "end", {"how": how}))]


def test_a_head_may_be_taught_later_and_gradients_may_be_kept_elsewhere() -> None:
    assert alarms("heads-are-taught", untaught()) == 1
    assert alarms("heads-are-taught", untaught(how="signal")) == 0
    assert alarms("heads-are-taught", untaught(steps=19)) == 0
    assert alarms("heads-are-taught", untaught(apart=40)) == 0
    assert alarms("heads-are-taught", untaught(body=None)) == 0
    assert alarms("heads-are-taught", untaught(moves=1)) == 0


def answered(
    *before: Any,
    steps: int = 20_000,
    how: str = "exit",
    kind: str = "float32",
    ways: list[str] | None = None,
    file: str = "train.py",
) -> list[Window]:
    """The last of so many steps of a network beside a copy of its first weights that is called on other samples and rests."""
    mini = Mini({"net.0.weight": {}, "copy.0.weight": UNHELD}, done=steps - 50)
    text: list[Any] = [] if ways is None else [("ways", {"args": {"files": [file], "places": ways}})]
    given = {"shapes": [[8, 4]], "dtypes": [kind]}
    windows = [mini.window(*before)]
    for step in range(50):
        called = ("forward net", ("batch", {"loader": "forward:net", "bits": [step], **given}))
        asked: Any = ("forward copy", {"context": "nograd"})
        answer = (asked, ("batch", {"loader": "forward:copy", "bits": [1000 + step], **given}))
        own = ("before", {"net.0.weight": (1.0, step)}, {"optimizer": 0})
        rests = ("before", {"copy.0.weight": (1.0, 0)}, {"optimizer": -1})
        windows.append(mini.window(*called, *answer, "backward", own, rests, "step optimizer0:SGD"))
    return [*windows, mini.window(*text, ("note", "end", {"how": how}))]


def test_a_copy_may_rest_in_a_short_run_one_that_was_ended_after_a_load_and_on_tokens() -> None:
    assert alarms("copies-move-on", answered()) == 1
    assert alarms("copies-move-on", answered("load_state_dict copy")) == 1  # how it was made
    for quiet in (answered("load"), answered("load_state_dict net"), answered(steps=19_999), answered(how="signal")):
        assert alarms("copies-move-on", quiet) == 0
    assert alarms("copies-move-on", answered(kind="int64")) == 0


def test_a_copy_may_rest_where_the_text_has_a_way_to_bring_it_on_or_is_not_all_known() -> None:
    assert alarms("copies-move-on", answered(steps=50, ways=[])) == 1
    loaded = answered("load_state_dict copy", steps=50, ways=["train.py:9"])  # it was made so
    assert alarms("copies-move-on", loaded) == 1
    for quiet in (answered(steps=49, ways=[]), answered(steps=50, ways=["train.py:30"]), answered(steps=50)):
        assert alarms("copies-move-on", quiet) == 0
    assert alarms("copies-move-on", answered(steps=50, ways=[], file="other.py")) == 0


def test_an_optimizer_that_was_given_an_empty_state_beside_its_schedule_had_none_to_give() -> None:
    goes_on: Any = ("load_state_dict LambdaLR", {"args": {"scheduler": 0, "optimizer": "optimizer0:AdamW", "count": 9}})
    state: Any = ("load_state_dict optimizer0:AdamW", {"args": {"state": 0}})

    def resumed(*rows: Any) -> list[Window]:
        mini = Mini({"model.a": {}})
        first, second = (("step optimizer0:AdamW", {"args": {"states": count}}) for count in (0, 1))
        return [mini.window(*rows, "backward", first), mini.window("backward", second)]

    assert alarms("optimizer-resumes", resumed(goes_on)) == 1
    assert alarms("optimizer-resumes", resumed(goes_on, state)) == 0
    assert alarms("optimizer-resumes", resumed(state, goes_on)) == 0


def unheld_head(come: object, *last: Any, how: str = "exit", body: int = 0) -> list[Window]:
    """A body that is trained below a head of no optimizer, in a program whose text says whether another one may come."""
    mini = Mini({"body.weight": {}, "head.weight": {"optimizer": -1}})
    forwards = [
        (f"forward {one}", {"args": {"training": True}, "inside": [f"module {one}"]}) for one in ("body", "head")
    ]
    own = (("gradients", {"body.weight": 0.5}, {"optimizer": 0}),)
    head = (("before", {"head.weight": (1.0, 7)}, UNHELD_ROWS), ("gradients", {"head.weight": 0.5}, UNHELD_ROWS))
    told = ("optimizers.ahead", {"args": {"come": come}})
    rows = [mini.window(*forwards, "backward", *own, *head, told, "step optimizer0:SGD") for _ in range(4)]
    return [*rows, mini.window(*last, ("note", "end", {"how": how}), complete=False)]


UNHELD_ROWS: Any = {"optimizer": -1}


def test_a_head_that_another_optimizer_may_take_is_judged_at_the_end() -> None:
    assert alarms("trained-are-held", unheld_head(False)) == 1
    assert alarms("trained-are-held", unheld_head(False)[:-1]) == 1
    for come in (True, None):
        assert alarms("trained-are-held", unheld_head(come)[:-1]) == 0
        assert alarms("trained-are-held", unheld_head(come)) == 1
        assert alarms("trained-are-held", unheld_head(come, ("variable", "head.weight", {"optimizer": 1}))) == 0
        assert alarms("trained-are-held", unheld_head(come, how="signal")) == 0


def test_what_an_optimizer_held_before_was_trained_in_its_turn() -> None:
    mini = Mini({"body.weight": {}, "head.weight": {"optimizer": 1}})
    forwards = [
        (f"forward {one}", {"args": {"training": True}, "inside": [f"module {one}"]}) for one in ("body", "head")
    ]
    own = (
        ("before", {"head.weight": (1.1, 5)}, {"optimizer": 1}),
        ("gradients", {"head.weight": 0.5}, {"optimizer": 1}),
    )
    first = mini.window(*forwards, "backward", *own, "step optimizer1:SGD")
    head = (("before", {"head.weight": (1.0, 7)}, UNHELD_ROWS), ("gradients", {"head.weight": 0.5}, UNHELD_ROWS))
    let_go = mini.window(("variable", "head.weight", {"optimizer": -1}))
    rest = [mini.window(*forwards, "backward", *head, "step optimizer0:SGD") for _ in range(4)]
    assert alarms("trained-are-held", [first, let_go, *rest]) == 0
    assert alarms("trained-are-held", rest) == 1
