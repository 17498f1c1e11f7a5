"""Every example of every shipped signature, written into one log, is read as what it is."""

from __future__ import annotations

from pathlib import Path

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs.read import read_logs

KINDS = {"int": int, "float": (int, float), "str": str, "bytes": (int, float), "ranks": tuple}


def test_every_example_is_read_and_its_fields_are_of_their_kind(tmp_path: Path) -> None:
    signatures = load_signatures()
    lines: list[str] = []
    wanted: list[tuple[str, int]] = []
    for signature in signatures:
        for example in signature.match:
            wanted.append((signature.id, len(lines) + 1))
            lines += [*example.splitlines(), "a line that parts the examples"]
    (tmp_path / "all.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    hits = {(hit.signature, hit.line): hit for hit in read_logs([tmp_path / "all.log"]).hits}
    assert [place for place in wanted if place not in hits] == []
    kinds = {signature.id: signature.fields for signature in signatures}
    wrong = [
        (name, field, value)
        for (name, _), hit in hits.items()
        for field, value in hit.fields.items()
        if not isinstance(value, KINDS[kinds[name][field]])
    ]
    assert wrong == []
