"""What would have told it before: every name leads somewhere, and a draft of a signature is one that loads."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from preflight.catalog.signature_files import load_signatures
from preflight.investigate.beside.pointers import kind_of, pointers_of
from preflight.investigate.judge import judge
from preflight.vocabulary.incident import Quote, UnknownLines
from preflight.vocabulary.log import Reading

from ..readings import SIGNATURES, files, hit, steps


def test_every_name_in_the_catalogue_is_a_rule_a_relation_or_an_item() -> None:
    names = {name for one in load_signatures() for name in one.caught_by}
    assert {kind_of(name) for name in names} == {"rule", "relation"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gradients-never-zeroed", "rule"), ("shapes-do-not-fit", "rule"), ("training-mode", "relation"), ("by-hand", "checklist")],
)  # fmt: skip
def test_a_name_is_known_by_its_file(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_an_incident_names_what_would_have_told_it() -> None:
    one = msgspec.structs.replace(SIGNATURES[0], caught_by=("step-exceeds-device",))
    reading = Reading(
        files=files(1), hits=(hit("oom.allocation", 0, 90, 9.0),), steps=steps(range(1), range(5)), world_size=1
    )
    incident = judge(reading, (one, *SIGNATURES[1:]))
    assert [(pointer.kind, pointer.id) for pointer in incident.caught_by] == [("rule", "step-exceeds-device")]


@pytest.mark.parametrize(
    "line",
    [
        "fabric says: 'ring' broken on port 7 after 31 ms",
        'custom_op failed: bad state 3 (see "log") \\x',
        "Überlauf im Puffer 12",
    ],
)
def test_a_draft_becomes_a_signature(tmp_path: Path, line: str) -> None:
    template = line.replace("7", "<*>").replace("31", "<*>").replace("3 (", "<*> (").replace("12", "<*>")
    incident = judge(Reading(files=files(1), steps=steps(range(1), range(5)), world_size=1))
    unknown = UnknownLines(template=template, count=3, quote=Quote(path="a.log", line=1, text=line))
    (pointer,) = pointers_of(None, msgspec.structs.replace(incident, unknown=(unknown,)))
    assert pointer.kind == "signature"
    assert pointer.draft is not None
    target = tmp_path / "signatures" / "own" / f"{pointer.id.removeprefix('own.')}.toml"
    target.parent.mkdir(parents=True)
    target.write_text(pointer.draft, encoding="utf-8")
    known = {one.id: one for one in load_signatures((tmp_path,))}
    import re

    assert re.search(known[pointer.id].regex or "", line)
    assert any(literal in line for literal in known[pointer.id].literals)


def test_short_lines_get_no_draft() -> None:
    incident = judge(Reading(files=files(1), steps=steps(range(1), range(5)), world_size=1))
    unknown = UnknownLines(template="<*> bad <*>", count=3, quote=Quote(path="a.log", line=1, text="1 bad 2"))
    assert pointers_of(None, msgspec.structs.replace(incident, unknown=(unknown,))) == ()
