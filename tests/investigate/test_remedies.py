"""Which remedies are proposed for causes."""

from __future__ import annotations

from preflight.catalog.remedy_files import load_remedies
from preflight.investigate.remedies import change_text, remedies_for


def test_remedies_follow_the_probabilities_of_causes() -> None:
    found = remedies_for({"fragmentation": 0.7, "shm-too-small": 0.2})
    assert found[0].remedy == "expandable-segments"
    assert "70 %" in found[0].why
    assert {"larger-shm", "share-through-files"} <= {one.remedy for one in found}
    assert remedies_for({"fragmentation": 0.01}) == ()
    assert remedies_for({"no-such-cause": 1.0}) == ()


def test_what_only_hides_the_cause_comes_last_and_says_so() -> None:
    found = remedies_for({"slow-rank": 0.8}, most=99)
    hiding = [one for one in found if "leaves the cause" in one.why]
    assert hiding
    assert found[-len(hiding) :] == tuple(hiding)


def test_a_cause_is_looked_for_where_it_is_open_and_mended_where_it_is_known() -> None:
    observing = {one.id for one in load_remedies() if one.observes}
    assert remedies_for({"collective-mismatch": 0.2})[0].remedy in observing
    known = [one.remedy for one in remedies_for({"collective-mismatch": 0.9}, most=99)]
    assert known[0] == "same-collectives-on-all-ranks"
    assert observing & set(known)


def test_every_remedy_can_be_told_in_one_line() -> None:
    for remedy in load_remedies():
        for change in remedy.changes:
            assert "\n" not in change_text(change)
    (first,) = [one for one in remedies_for({"activations-too-large": 1.0}, most=99) if one.remedy == "reduce-batch"]
    assert (
        first.change == "per_device_train_batch_size: half of what it was; gradient_accumulation_steps: 2 x what it was"
    )
