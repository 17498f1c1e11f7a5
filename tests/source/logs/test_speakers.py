"""Who speaks in a shared log, and where each falls silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:", "{:>3}: "])
@pytest.mark.parametrize("silent", [0, 7, 11])
def test_a_rank_that_falls_silent_in_the_middle_is_seen(prefix: str, silent: int, tmp_path: Path) -> None:
    rows = []
    for second in range(3000):
        for rank in range(12):
            if rank == silent and second >= 1200:
                continue
            clock = f"2024-01-01 12:{second // 60:02d}:{second % 60:02d},000"
            rows.append(f"{prefix.format(rank)}{clock} INFO working at this and that for a while\n")
    (tmp_path / "train.log").write_text("".join(rows))
    reading = read_logs([tmp_path])
    told = {who.rank if (who := one.who).rank is not None else who.local_rank: one for one in reading.spoke}
    assert sorted(told) == list(range(12))
    one = told[silent]
    assert (one.lines, one.first_line) == (1200, silent + 1)
    assert one.last_line == max(n for n, row in enumerate(rows, 1) if row.startswith(prefix.format(silent)))
    first, last = told[(silent + 1) % 12].last_time, one.last_time
    assert first is not None
    assert last is not None
    assert first - last == 1800
    assert all(one.lines == 3000 for rank, one in told.items() if rank != silent)


def test_a_file_of_one_process_has_no_speakers(tmp_path: Path) -> None:
    (tmp_path / "rank_3.log").write_text("[rank3]: INFO a\n" * 100)
    assert not read_logs([tmp_path]).spoke


def test_labels_behind_a_time_are_seen(tmp_path: Path) -> None:
    rows = [f"[2024-01-01 12:00:0{n % 10},000] [INFO] [engine.py:1:f] [Rank {n % 4}] hello\n" for n in range(200)]
    (tmp_path / "ds.log").write_text("".join(rows))
    assert sorted(one.who.rank or 0 for one in read_logs([tmp_path]).spoke) == [0, 1, 2, 3]


def test_numbers_of_any_size_behind_a_label_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[rank0]: a\n[rank1]: b\n[rank99999999999999]: c\n[rank]: d\n[rank5: e\n" * 50)
    assert sorted(one.who.rank or 0 for one in read_logs([tmp_path]).spoke) == [0, 1]


@pytest.mark.parametrize("prefix", ["rank{}\t", "llm-worker-{} pytorch "])
def test_who_falls_silent_is_seen_behind_labels_that_stand_on_every_line(prefix: str, tmp_path: Path) -> None:
    rows = [f"{prefix.format(n % 4)}2024-01-01 12:00:{n:02} INFO working\n" for n in range(60) if n < 30 or n % 4 != 2]
    (tmp_path / "train.log").write_text("".join(rows))
    told = {
        one.who.rank if one.who.rank is not None else int((one.who.node or "")[-1]): one
        for one in read_logs([tmp_path]).spoke
    }
    assert {rank: (one.lines, one.last_line) for rank, one in told.items() if rank == 2} == {2: (7, 27)}
    assert sorted(told) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "form",
    [
        "2024-01-01 12:00:{second:02}.250 | INFO     | __main__:fit:{second} - [rank={rank}] working",
        "2024-01-01 12:00:{second:02} INFO working [rank {rank}]",
        "2024-01-01 12:00:{second:02} INFO rank {rank} working",
        "[2024-01-01 12:00:{second:02} DP{rank} TP0] working",
    ],
)
def test_who_falls_silent_is_seen_wherever_the_label_stands(form: str, tmp_path: Path) -> None:
    rows = [form.format(second=n, rank=n % 4) + "\n" for n in range(60) if n < 30 or n % 4 != 2]
    (tmp_path / "train.log").write_text("".join(rows))
    told = {one.who.rank: one for one in read_logs([tmp_path]).spoke}
    assert (sorted(told), told[2].lines, told[2].last_line) == ([0, 1, 2, 3], 7, 27)
