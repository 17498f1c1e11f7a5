from __future__ import annotations

import msgspec

from preflight.report.json import from_json
from preflight.report.pictures.links import links_pictures
from preflight.report.render import render
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.live import Difference, Measurement, RankPulse
from preflight.vocabulary.report import SCHEMA, Report, Tool

REPORT = Report(
    schema=SCHEMA, command="investigate probe", tool=Tool("preflight", "0"), verdict="GO", inputs={"subject": "4 ranks"},
    measurements=(
        Measurement(probe="compute", name="forward", unit="s", better="smaller", value=0.0123, low=0.0121, high=0.0129, repeats=20, rank=1),
        Measurement(probe="collectives", name="all_reduce 1 MiB bus", unit="byte/s", better="larger", value=2.5e9, rank=0),
        Measurement(probe="storage", name="write", unit="", better="larger", outcome="timeout", rank=0, reason="not done within 60 s"),
    ),
    pulses=(RankPulse(rank=0, state="alive"), RankPulse(rank=1, state="gone", node="node|1", pid=7, step=12, reason="killed")),
    differences=(Difference(key="host.kernel", usual="5.15", usual_ranks=3, unusual={"5.4": (2,)}, weight="info"),),
)  # fmt: skip


def test_what_is_seen_live_is_shown_in_words() -> None:
    text = render(REPORT, "text", width=120)
    assert "12.3 ms (12.1 ms to 12.9 ms, 20 repeats)" in text
    assert "2.5 GB/s" in text
    assert "timeout: not done within 60 s" in text
    assert "1 of 2 live" in text
    assert "rank 1    gone" in text
    assert "5.15 on 3, 5.4 on rank 2" in text


def test_of_a_run_that_is_there_the_first_thing_that_is_wrong_is_the_answer() -> None:
    gone = tuple(
        Finding("triage.rank", "TRI105", "error", "certain", f"rank {rank} is gone: killed", Location(rank=rank))
        for rank in (1, 3)
    )
    triage = msgspec.structs.replace(REPORT, command="investigate triage", verdict="NO-GO", findings=gone)
    text = render(triage, "text", width=120)
    assert "2 errors, 0 warnings; rank 1 is gone: killed; and 1 more" in text
    assert "before training" not in text
    doctor = msgspec.structs.replace(triage, command="investigate doctor")
    assert "before training" in render(doctor, "text", width=120)


def test_what_many_ranks_measured_is_one_row_unless_each_is_wanted() -> None:
    rows = [Measurement(probe="compute", name="forward", unit="s", better="smaller", value=0.001 * (4 - rank), low=0.001,
                        high=0.002, repeats=20, rank=rank) for rank in range(4)]  # fmt: skip
    late = Measurement(
        probe="compute", name="forward", unit="s", better="smaller", outcome="timeout", rank=4, reason="late"
    )
    report = msgspec.structs.replace(REPORT, measurements=(*rows, late))
    text = render(report, "text", width=120)
    assert "compute: forward          2.5 ms on 4 ranks (1 ms on rank 3 to 4 ms on rank 0)" in text
    assert "compute: forward, rank 4  timeout: late" in text
    assert "forward, rank 3" not in text
    assert "of each rank with" in text
    text = render(report, "text", width=120, verbose=True)
    assert text.count("20 repeats)") == 4
    assert "of each rank with" not in text


def test_what_is_seen_live_is_shown_as_markdown() -> None:
    text = render(REPORT, "markdown")
    assert "# Ranks: 1 of 2 live" in text
    assert r"| 1 | gone | node\|1 | killed |" in text
    assert "| compute | forward | 1 | 12.3 ms | 12.1 ms to 12.9 ms | 20 |" in text
    assert "| host.kernel | 5.15 (3 ranks) | 5.4 on 2 |" in text


def test_the_page_shows_what_the_terminal_shows() -> None:
    page = render(REPORT, "html")
    for said in ("12.3 ms", "12.1 ms to 12.9 ms", "timeout: not done within 60 s", "node|1", "5.4 on 2"):
        assert said in page


def test_it_is_read_back_from_json() -> None:
    assert from_json(render(REPORT, "json")) == REPORT


def _link(rank: int, peer: int, seconds: float | None, size: str = "8 B") -> Measurement:
    known = {"value": seconds} if seconds is not None else {"outcome": "timeout"}
    return Measurement(probe="topology", name=f"link {rank}-{peer} {size}", unit="s", better="smaller", rank=rank, peer=peer, **known)  # type: ignore[arg-type]  # fmt: skip


def test_links_are_drawn_rank_by_rank() -> None:
    times = {(0, 1): 1e-5, (0, 2): 1.2e-5, (0, 3): 1e-5, (1, 2): 2e-3, (1, 3): 2e-5, (2, 3): None}
    (picture,) = links_pictures(tuple(_link(*pair, seconds) for pair, seconds in times.items()))
    assert len(picture["cells"]) == 12  # each link is seen from both its ends
    dark = {one["title"]: one["shade"] for one in picture["cells"]}
    assert (dark["ranks 0 and 1: 10 µs"], dark["ranks 1 and 0: 10 µs"]) == (0, 0)
    assert (dark["ranks 1 and 3: 20 µs"], dark["ranks 2 and 1: 2 ms"]) == (1, 4)
    assert dark["ranks 3 and 2: no answer"] == 4
    assert picture["left_out"] == 0
    assert links_pictures((_link(0, 1, 1e-5),)) == []  # between two there is nothing to compare
    many = tuple(_link(0, peer, 1e-5 if peer != 90 else 1e-3) for peer in range(1, 100))
    (picture,) = links_pictures(many)
    assert picture["left_out"] == 36
    assert "rank 90" in {row["name"] for row in picture["rows"]}


def test_the_page_has_a_map_for_each_size() -> None:
    measured = tuple(_link(a, b, 1e-5, size) for size in ("8 B", "1 MiB") for a in range(4) for b in range(a + 1, 4))
    page = render(msgspec.structs.replace(REPORT, measurements=measured * 4), "html")
    assert page.count("Between ranks:") == 2
    assert "All 48 in numbers" in page
    assert "in numbers" not in render(REPORT, "html")
