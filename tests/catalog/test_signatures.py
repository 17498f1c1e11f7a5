"""Every signature against its own examples, against RE2, and against the other signatures; and the reader's refusals."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from preflight.catalog import files
from preflight.catalog.remedy_files import remedy_names
from preflight.catalog.signature_files import load_signature, load_signatures, problems, signature_names, takes
from preflight.errors import CatalogError
from preflight.vocabulary.signature import Category, Role, Signature

SHIPPED = load_signatures()
BY_ID = {signature.id: signature for signature in SHIPPED}
NAMED_EXCEPTION = re.compile(r"^\W*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt|Iteration)\W*$")
EACH = pytest.mark.parametrize("signature", SHIPPED, ids=lambda signature: signature.id)


@EACH
def test_a_signature_is_right_in_itself(signature: Signature) -> None:
    assert list(problems(signature)) == []


@EACH
def test_its_literals_are_in_its_examples(signature: Signature) -> None:
    first_lines = [text.split("\n", 1)[0] for text in signature.match]
    assert all(any(literal in line for literal in signature.literals) for line in first_lines)
    assert all(0 < len(text) <= 2000 for text in (*signature.match, *signature.no_match))
    for text in signature.match:
        assert text.count("\n") <= signature.after, "an example has more lines than belong to it"


@EACH
def test_it_is_more_than_the_name_of_an_exception(signature: Signature) -> None:
    """``AssertionError`` alone says nothing; a name that one library alone raises for one thing is another matter."""
    for literal in signature.literals:
        assert len(literal.strip().encode()) >= 4
    builtin = {name for name in vars(__import__("builtins")) if NAMED_EXCEPTION.match(name)}
    assert not {literal.strip(" :\n") for literal in signature.literals} & builtin or signature.regex is not None
    for name in builtin:
        assert not takes(signature, name)
        assert not takes(signature, f"{name}: ")


@EACH
def test_it_says_where_it_stands_and_what_to_do(signature: Signature) -> None:
    assert all(len(source) > 10 for source in signature.sources)
    assert len(set(signature.sources)) == len(signature.sources)
    assert not signature.title.endswith(".")
    for step in signature.next:
        assert step[-1] in ".:?", step
    if signature.role in ("root", "confirmation"):
        assert signature.causes, "one that names a cause says which"
        assert signature.next, "one that names a cause says what to do"
        assert signature.category != "none"
    if signature.role == "cascade":
        assert signature.next, "a pointer says where to look"
    if signature.category == "none":
        assert signature.role in ("progress", "benign", "recovered", "teardown", "cascade")


@EACH
def test_it_supersedes_signatures_that_exist(signature: Signature) -> None:
    assert set(signature.supersedes) <= set(BY_ID) - {signature.id}
    assert len(set(signature.supersedes)) == len(signature.supersedes)


def test_what_would_have_caught_it_is_there() -> None:
    from preflight.check.notices import all_rules
    from preflight.monitor.relation import relations

    known = {one.rule.name for one in all_rules()} | set(relations())
    named = {name for one in SHIPPED for name in one.caught_by if not name.startswith("checklist:")}
    assert named <= known
    assert len(named) > 60


def test_remedies_are_there_and_belong_to_a_cause() -> None:
    names = set(remedy_names())
    assert {name for one in SHIPPED for name in one.remedies} <= names
    helped = [one for one in SHIPPED if one.role == "root" and one.remedies]
    assert len(helped) > 0.9 * len([one for one in SHIPPED if one.role == "root"])


def test_there_are_signatures_of_every_kind() -> None:
    assert len(SHIPPED) >= 230
    assert {one.role for one in SHIPPED} == set(get_args(Role))
    assert {one.category for one in SHIPPED} == set(get_args(Category)) - {"cannot-tell"}
    sources = Counter(source for one in SHIPPED for source in one.sources)
    assert len(sources) >= 200


def test_ids_are_unique_and_those_of_the_places() -> None:
    names = [
        f"{path.parent.name}.{path.stem}" for path in Path(files.SHIPPED, "signatures").rglob("*.toml")
    ]  # fmt: skip
    assert sorted(names) == [signature.id for signature in SHIPPED] == list(signature_names())


def _above(signature: Signature) -> set[str]:
    """Return what a signature supersedes, and what these supersede in turn."""
    found: set[str] = set()
    waiting = list(signature.supersedes)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += BY_ID[name].supersedes
    return found


@EACH
def test_no_root_of_another_category_takes_its_examples(signature: Signature) -> None:
    if signature.role != "root":
        return
    below = _above(signature)
    for other in SHIPPED:
        if other.role != "root" or other.category == signature.category or other.id == signature.id:
            continue
        if other.id in below or signature.id in _above(other):
            continue
        taken = [text for text in signature.match if takes(other, text)]
        assert not taken, f"{other.id} takes it too"


@EACH
def test_no_ring_of_superseding(signature: Signature) -> None:
    assert signature.id not in _above(signature)


@EACH
def test_its_examples_are_one_line_apart_from_what_follows(signature: Signature) -> None:
    again = Counter(signature.match)
    assert max(again.values()) == 1
    assert not set(signature.match) & set(signature.no_match)


GOOD = """\
title = "The lab's own file server is away"
category = "data"
role = "root"
literals = ["labfs: server"]
regex = 'labfs: server (?P<server>\\S+) is away'
fields = { server = "str" }
sources = ["the file server's own manual"]
match = ["labfs: server one is away"]
no_match = ["labfs: server one is back"]
next = ["Ask the lab."]

[[causes]]
id = "server-down"
title = "The server is down"
prior = 1.0
"""


def _user(folder: Path, text: str, name: str = "lab/server-away") -> Path:
    path = folder / "signatures" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_users_folder_adds_a_signature(tmp_path: Path) -> None:
    _user(tmp_path, GOOD)
    loaded = load_signatures([tmp_path])
    assert [signature.id for signature in loaded] == sorted([*BY_ID, "lab.server-away"])
    own = load_signature("lab.server-away", [tmp_path])
    assert own is not None
    assert own.fields == {"server": "str"}
    assert load_signatures([tmp_path]) is loaded
    assert load_signatures() is SHIPPED
    assert load_signature("lab.server-away") is None
    assert set(signature_names([tmp_path])) - set(signature_names()) == {"lab.server-away"}


def test_a_users_file_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    _user(tmp_path, GOOD, "oom/cuda-allocation")
    by_id = {signature.id: signature for signature in load_signatures([tmp_path])}
    assert by_id["oom.cuda-allocation"].title == "The lab's own file server is away"
    assert len(by_id) == len(SHIPPED)


def test_two_folders_do_not_hold_the_same_id(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _user(tmp_path / name, GOOD)
    with pytest.raises(CatalogError, match=r"two.*'lab\.server-away' is in .*one"):
        load_signatures([tmp_path / "one", tmp_path / "two"])


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('role = "root"', 'role = "rot"', "role: 'rot' is none of", "did you mean 'root'?"),
        ('category = "data"', 'category = "date"', "category: 'date' is none of", "did you mean 'data'?"),
        ("literals =", "literal =", "literal: there is no such field", "did you mean 'literals'?"),
        ('server = "str"', 'server = "string"', "fields.server: 'string' is none of", "did you mean 'str'?"),
        ('server = "str"', 'host = "str"', "fields.host: no group of that name", None),
        ("prior = 1.0", "prior = 1.5", "causes: the priors add up to more than 1", None),
        ("prior = 1.0", "priority = 1.0", "causes[0].priority: there is no such field", "did you mean 'prior'?"),
        ("prior = 1.0", 'prior = "often"', "causes[0].prior: Expected `float`, got `str`", None),
        ("is away'", "is (?=away)'", "regex: RE2 cannot read the expression", None),
        ("is away'", "is (away'", "regex: Python cannot read the expression", None),
        ("server one is away", "server one is gone", "match: it does not take 'labfs: server one is gone'", None),
        ("server one is back", "server two is away", "no_match: it takes 'labfs: server two is away'", None),
        ('no_match = ["labfs: server one is back"]', "no_match = []", "no_match: there is no example", None),
        ('title = "The lab', 'id = "lab.other"\ntitle = "The lab', "id: it is 'lab.other'", "leave it out"),
        ('sources = ["the file server\'s own manual"]', "", "names no source", "say where"),
        ("next =", 'shift = "wait"\nnext =', "shift: 'wait' is none of its fields", None),
        ("next =", 'supersedes = ["oom.cuda-alocation"]\nnext =', "supersedes: there is no", "oom.cuda-allocation"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_users_file_is_said(
    tmp_path: Path, old: str, new: str, message: str, hint: str | None
) -> None:
    assert old in GOOD
    path = _user(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(CatalogError) as caught:
        load_signatures([tmp_path])
    assert f"{path}: {message}" in str(caught.value)
    if hint is not None:
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["stray", "Lab/server", "lab/server_away"])
def test_a_file_that_has_no_place_is_refused(tmp_path: Path, name: str) -> None:
    _user(tmp_path, GOOD, name)
    with pytest.raises(CatalogError, match=os.path.basename(name)):
        load_signatures([tmp_path])


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="nowhere"):
        load_signatures([tmp_path / "nowhere"])


HEALTHY = (Path(__file__).parent / "data" / "healthy.txt").read_text("utf-8").splitlines()


def test_no_signature_of_a_failure_takes_a_line_of_a_healthy_run() -> None:
    """Lines as training programs, launchers, drivers and schedulers print them while all is well, source code included."""
    assert len(HEALTHY) > 120
    taken = [
        (signature.id, line)
        for line in HEALTHY
        for signature in SHIPPED
        if signature.role in ("root", "cascade", "confirmation") and takes(signature, line)
    ]
    assert taken == []


def test_the_lines_of_a_healthy_run_that_frighten_people_are_known() -> None:
    frightening = [line for line in HEALTHY if re.search(r"Warning|WARNING|OVERFLOW|leaked|\bTF-TRT", line)]
    known = [
        line
        for line in frightening
        if any(takes(s, line) for s in SHIPPED if s.role in ("benign", "recovered", "teardown"))
    ]
    assert len(known) > 0.6 * len(frightening)
