"""What tells causes apart is named once, and said in words."""

from __future__ import annotations

from preflight.catalog.observation_names import looked_for
from preflight.catalog.signature_files import load_signatures


def test_every_name_that_a_signature_uses_is_explained_and_every_explanation_is_used() -> None:
    used = {name for one in load_signatures() for cause in one.causes for name in cause.discriminated_by}
    assert used == set(looked_for())


def test_what_to_look_at_reads_behind_look_at() -> None:
    for name, one in looked_for().items():
        assert one.look[0].islower() or one.look.startswith(("Flight", "RoCE")), name
        assert not one.look.endswith("."), name
        assert one.rank in (0, 1, 2)
        assert one.command is None or one.where != "log" or one.command.split()[0] in ("sacct", "scontrol", "preflight")
