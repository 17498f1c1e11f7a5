"""Which numbers belong to a series where a counter of steps begins again."""

from __future__ import annotations

import pytest

from preflight.investigate.series.columns import by_step, tracks_of
from preflight.vocabulary.log import StepLine

pytest.importorskip("numpy")


def starts(*lengths: tuple[int, float]) -> list[StepLine]:
    """Return the steps of several starts: how far each came, and its loss."""
    told = [(step, loss) for length, loss in lengths for step in range(length)]
    return [StepLine(file=0, line=line, step=step, values={"loss": loss}) for line, (step, loss) in enumerate(told)]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        (((200, 4.0), (150, 0.5), (150, 0.4), (1, 0.7)), [0.7, *[0.4] * 149]),
        (((10, 4.0), (4, 0.5)), [*[0.5] * 4, *[4.0] * 6]),
        (((10, 4.0),), [4.0] * 10),
    ],
)
def test_older_starts_that_came_further_are_other_trainings(
    lengths: tuple[tuple[int, float], ...], expected: list[float]
) -> None:
    track = tracks_of(starts(*lengths))[0]
    assert by_step(track, "loss").numbers.tolist() == expected


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        (((10, 4.0), (4, 0.5)), [0.5] * 4),
        (((4, 4.0), (10, 0.5)), [0.5] * 10),
        (((10, 4.0),), [4.0] * 10),
    ],
)
def test_what_the_last_start_has_not_reached_may_be_left_out(
    lengths: tuple[tuple[int, float], ...], expected: list[float]
) -> None:
    track = tracks_of(starts(*lengths))[0]
    assert by_step(track, "loss", reached=True).numbers.tolist() == expected


def test_a_line_without_a_step_does_not_keep_the_others_from_their_order() -> None:
    lines = starts((140, 4.0), (20, 0.5))
    lines.insert(30, StepLine(file=0, line=99, step=None, values={"loss": 9.0}))
    assert by_step(tracks_of(lines)[0], "loss", reached=True).numbers.tolist() == [0.5] * 20


def rounds(*runs: tuple[int, float]) -> list[StepLine]:
    """Return the batches of several runs, counted anew in each epoch: how many epochs, and their loss."""
    told = [(epoch, batch, loss) for epochs, loss in runs for epoch in range(epochs) for batch in (100, 200, 300, 400)]
    return [
        StepLine(file=0, line=line, step=batch, values={"loss": loss, "epoch": float(epoch + 1)})
        for line, (epoch, batch, loss) in enumerate(told)
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (((5, 0.1), (5, 0.1), (5, 0.2)), [0.2] * 20),  # another training, whose loss is another one
        (((5, 0.1), (5, 0.1), (3, 0.2)), [0.2] * 12),
        (((5, 0.1),), [0.1] * 20),
    ],
)
def test_where_the_epochs_begin_again_too_another_run_does(
    runs: tuple[tuple[int, float], ...], expected: list[float]
) -> None:
    assert [float(one) for one in by_step(tracks_of(rounds(*runs))[0], "loss", reached=True).numbers] == expected


def test_a_run_that_is_resumed_at_an_epoch_counts_on_from_there() -> None:
    lines = [*rounds((6, 0.3)), *[one for one in rounds((9, 0.2)) if one.values["epoch"] > 4]]
    found = by_step(tracks_of(lines)[0], "loss")
    assert [float(one) for one in found.numbers] == [0.3] * 16 + [0.2] * 20


def test_values_are_the_same_whether_all_lines_have_them_or_some() -> None:
    rows = [{"loss": 3.0 - step / 10, "lr": 0.1 * step} for step in range(20)]
    alike = tracks_of([StepLine(file=0, line=n, step=n, values=row) for n, row in enumerate(rows)])[0]
    mixed_rows = [*rows[:7], {"val_loss": 2.5}, *rows[7:12], {"lr": 9.0, "loss": 8.0}, *rows[12:]]
    mixed = tracks_of([StepLine(file=0, line=n, step=n, values=row) for n, row in enumerate(mixed_rows)])[0]
    for track, told in ((alike, rows), (mixed, mixed_rows)):
        for name in ("loss", "lr", "val_loss", "nothing"):
            at, numbers = track.points(name)
            assert at.tolist() == [place for place, row in enumerate(told) if name in row]
            assert numbers.tolist() == [row[name] for row in told if name in row]
    assert mixed.names() == {"loss", "lr", "val_loss"}
