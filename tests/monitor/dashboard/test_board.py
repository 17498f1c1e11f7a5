"""The numbers of a live page come from what was recorded, and none where nothing was."""

from __future__ import annotations

from typing import Any

from preflight.monitor.dashboard.board import MOST_RANKS, Board, Key, Lately, Speed
from preflight.monitor.mini import Mini
from preflight.monitor.window import Memory, Window

SECOND = 1_000_000_000


def iteration(mini: Mini, began: float, *rows: Any, size: int | None = None, ids: bool = False) -> Window:
    """A window that begins at a time, with one batch."""
    given = (
        [("batch", {"shapes": [[size, 16]], "dtypes": ["int64" if ids else "float32"], "indices": range(size)})]
        if size
        else []
    )
    window = mini.window(*given, "zero_grad optimizer0:SGD", "forward model", "backward", *rows, "step optimizer0:SGD")
    window.calls = [call._replace(t=int(began * SECOND) + call.q) for call in window.calls]
    return window


def board_of(*windows: Window) -> Board:
    board = Board()
    for window in windows:
        board.see(window)
    return board


def speed_of(board: Board, rank: int = 0) -> Speed:
    speed = board.lately[rank].speed()
    assert speed is not None
    return speed


def test_speed_is_that_of_the_last_iterations_without_the_first() -> None:
    mini = Mini()
    board = board_of(*(iteration(mini, began, size=8) for began in (0.0, 10.0, 10.5, 11.0, 11.5)))
    speed = speed_of(board)
    assert speed.steps is not None
    assert abs(speed.steps - 2) < 1e-3
    assert abs(speed.seconds - 0.5) < 1e-3
    assert speed.samples is not None
    assert abs(speed.samples - 16) < 0.01
    assert (speed.tokens, speed.shape) == (None, None)


def test_tokens_are_told_of_batches_of_sequences_of_whole_numbers() -> None:
    mini = Mini()
    speed = speed_of(board_of(*(iteration(mini, float(began), size=4, ids=True) for began in range(6))))
    assert speed.tokens is not None
    assert abs(speed.tokens - 64) < 0.1
    assert speed.shape == (4, 16)


def test_without_a_loader_there_are_no_samples() -> None:
    mini = Mini()
    speed = speed_of(board_of(*(iteration(mini, float(began)) for began in range(6))))
    assert (speed.samples, speed.tokens) == (None, None)


def test_two_iterations_are_needed_for_a_speed() -> None:
    assert board_of(iteration(Mini(), 0.0)).lately[0].speed() is None
    assert Lately().speed() is None


def test_step_times_are_those_between_two_beginnings_and_belong_to_the_first() -> None:
    mini = Mini()
    board = board_of(*(iteration(mini, began) for began in (0.0, 5.0, 6.0, 8.0)))
    told = board.curves[Key("step time", "", 0)].since(-1, 0)
    assert told is not None
    assert told.steps == [1, 2]
    assert [round(value or 0, 3) for value in told.values] == [1.0, 2.0]


def test_an_iteration_that_is_missing_makes_no_step_time() -> None:
    mini = Mini()
    windows = [iteration(mini, float(began)) for began in range(6)]
    board = board_of(*windows[:3], *windows[4:])
    told = board.curves[Key("step time", "", 0)].since(-1, 0)
    assert told is not None
    assert [round(value or 0, 3) for value in told.values] == [1.0, 1.0]
    assert told.steps == [1, 4]


def test_memory_is_told_by_device_and_the_host_apart() -> None:
    mini = Mini()
    window = iteration(mini, 0.0)
    held = Memory(1, 0, 0, 0, "cuda:0", 10, 20, 15, 25, 100, None)
    window.memory = [held, Memory(2, 0, 0, 0, "host", None, None, None, None, None, 7)]
    board = board_of(window)
    told = {(key.chart, key.subject): curve.last for key, curve in board.curves.items()}
    assert told == {
        ("device memory", "cuda:0 allocated"): 10, ("device memory", "cuda:0 reserved"): 20,
        ("device memory", "cuda:0 peak so far"): 15, ("host memory", "resident"): 7,
    }  # fmt: skip
    assert board.lately[0].memory["cuda:0"] is held
    assert [(one.rank, one.device, one.peak_bytes, one.peak_reserved_bytes) for one in board.memory()] == [
        (0, "cuda:0", 15, 25)
    ]
    shown = {(one.name, one.subject) for one in board.series()}
    assert shown == set(), "one point is no curve of a report"


def test_losses_rates_and_norms_are_told_and_norms_of_gradients_where_nobody_clips() -> None:
    mini = Mini({"model.weight": {}, "model.bias": {}})
    rows = [
        ("scalar", "lr", "optimizer0:SGD.0", 0.1),
        ("gradients", {"model.weight": 3.0, "model.bias": 4.0}),
        ("loss", 2.5),
    ]
    board = board_of(iteration(mini, 0.0, *rows))
    told = {key.chart: curve.last for key, curve in board.curves.items()}
    assert told == {"loss": 2.5, "learning rate": 0.1, "gradient norm": 5.0}


def test_of_many_ranks_the_first_have_curves_and_all_have_step_times() -> None:
    board = Board()
    for rank in range(MOST_RANKS + 4):
        mini = Mini(rank=rank, world=MOST_RANKS + 4)
        for began in range(4):
            board.see(iteration(mini, float(began), ("loss", 1.0)))
    assert {key.rank for key in board.curves} == set(range(MOST_RANKS))
    assert set(board.lately) == {rank for rank, _ in board.spans.cells} == set(range(MOST_RANKS + 4))
