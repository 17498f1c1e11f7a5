"""Whatever a script holds, following it ends, stays small, raises nothing but the tool's own errors, and runs nothing."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight import analyze
from preflight.errors import InputError, PreflightError
from preflight.source import evaluate
from preflight.source.reading import Reading, read
from preflight.source.script import parse, read_script

pytestmark = pytest.mark.slow

FEW_STEPS = 60_000
LITTLE_MEMORY = 200_000_000

SCRIPTS: dict[str, str] = {
    "powers": "a = 10**10**10; b = 2**2**2**2**2**2; c = pow(10, 10**10); d = pow(2, 10**9, 7); e = 1 << 10**12; f = 2.0**100000",
    "repeats": "a = 'a'*10**12; b = [0]*10**12; c = 10**12*'ab'; d = b'x'*10**10; e = [[0]*10**6]*10**6",
    "growth": "a = 'x'\nb = [1]\nfor i in range(100): a = a + a\nfor i in range(100): b = b + b\nfor i in range(100): a = f'{a}{a}'\n"
    "for i in range(100): a = '%s%s' % (a, a)\nfor i in range(100): a = '{0}{0}'.format(a)\nfor i in range(100): b.extend(b)",
    "squares": "a = 3\nfor i in range(1000): a = a * a",
    "widths": "a = f'{1:1000000000}'; b = '%1000000000d' % 1; c = '{:1000000000}'.format(1); d = '%*d' % (10**9, 1)\n"
    "e = 'x'.ljust(10**12); f = 'x'.replace('', 'y'*9000).replace('y', 'y'*9000); g = ','.join(['y'*9000]*9000); h = f'{1:.999999999f}'",
    "recursion that may end": "import sys\ndef f(n):\n    if n in sys.argv: return 0\n    return f(n+1) + f(n+2) + f(n+3)\nf(0)",
    "calls that double": "\n".join(f"def f{i}(a):\n    f{i + 1}(a)\n    f{i + 1}(a)" for i in range(38))
    + "\ndef f38(a): pass\nf0(1)",
    "branches that double": "\n".join(
        f"def f{i}(a):\n    if a[{i}]: f{i + 1}(a)\n    else: f{i + 1}(a)" for i in range(38)
    )
    + "\nf0(x)",
    "endless generators": "import itertools\ndef g():\n    while True: yield 1\nlist(g()); sum(g()); [x for x in g()]\n"
    "list(itertools.count()); list(itertools.cycle([1])); list(itertools.product(range(999), range(999), range(999)))",
    "things that hold themselves": "a = []; a.append(a); b = {}; b['b'] = b; c = a == a; d = str(b); a in a; sorted(a); f'{a}'; '%s' % a\n"
    "import copy, json\ncopy.deepcopy(a); json.dumps(b)\nclass K: pass\nk = K(); k.k = k; copy.deepcopy(k)",
    "classes in circles": "class A: pass\nclass A(A): pass\nclass B(A, A): pass\nclass C(C): pass\nA.A = A\nA().x = A()\n"
    "class N:\n    def __getattr__(self, n): return n and getattr(self, n)\nN().q\nclass P:\n    @property\n    def p(self): return unknown and self.p\nP().p\n"
    "class I:\n    def __iter__(self): return I()\nlist(I())\nclass L:\n    def __len__(self): return unknown and len(self)\nlen(L())\nif L(): pass\n"
    "class E:\n    def __eq__(self, o): return self == o\nE() == E()\nclass M:\n    def __init__(self): self.m = unknown and M()\nM()",
    "nested comprehensions": "a = [x for a in range(99) for b in range(99) for c in range(99) for d in range(99) for x in range(99)]\n"
    "b = [[[[1 for i in range(50)] for j in range(50)] for k in range(50)] for l in range(50)]",
    "shared lists": "a = [0 for _ in range(4000)]; b = [a for _ in range(4000)]; c = [b for _ in range(4000)]; d = str(c); e = c == c\n"
    "f = sum(sum(x, []) for x in c)",
    "lists of lists": "a = [1]*10\n"
    + "a = [a]*10\n" * 9
    + "b = str(a); c = a == a; sorted(a); max(a); import json; json.dumps(a)",
    "huge ranges": "list(range(10**9)); len(range(10**20)); sum(range(10**9)); [*range(10**9)]; f(*range(10**9)); dict(enumerate(range(10**9)))\n"
    "import itertools, math\nlist(itertools.chain(*[range(4000)]*4000)); math.factorial(10**7); bytes(10**12); a, *b = range(10**9)",
    "huge literals": "a = "
    + "9" * 4000
    + "\nb = '"
    + "x" * 900_000
    + "'\nc = b*9; d = f'{b}{b}'; e = [b]*9000; f = ''.join(e); g = b.upper()",
    "huge integers": "a = 0x"
    + "f" * 100_000
    + "\nb = a*a; c = str(a); d = f'{a}'; e = '%d' % a; f = float(a); g = 1/a; h = hex(a)",
    "nonsense": "1/0; [][0]; {}['a']; None.x; None(); 1(); 1[0]; -'a'; ~1.5; 1 < 'a'; undefined; int(1, 2, 3); range(); range(1, 2, 0)\n"
    "zip(); super(); getattr(); len(); open(); dict(1); sorted([1, 'a']); [1].insert(); {}.pop(); '{'.format(); {[]: 1}; [1][{}]; chr(10**20)\n"
    "x = {}\nx[[]] = 1\nx[(1, [2])] = 1\ndel undefined\nisinstance(1); print(*1); f(**1); a, b = 1; (a, b), c = [[1], 2]; next(); map(); max()",
    "surrogates": "a = '\\ud800'\nb = f'{a}'\nimport yaml, json\nyaml.safe_load(a); json.loads(a); open(a).read(); open('a\\0b').read()\n"
    "from pathlib import Path\nPath(a).read_text(); Path('\\0').read_text()",
    "names of the scope": "globals()['x'] = 1\nlocals().update(a=1)\nfor k in list(globals()): globals()[k + 'x'] = 1\nglobals().clear()\nx",
    "executes itself": "s = 'exec(s)'\nexec(s)\nt = 'eval(t)'\neval(t)\nexec('x = 10**10**10')",
    "many functions": "\n".join(f"def f{i}(a, b=1): return f{i + 1}(a) + b" for i in range(1500)),
    "a long file": "x0 = 1\n" + "\n".join(f"x{i} = x{i - 1} + 1" for i in range(1, 3000)),
    "a long lineage": "class C0: pass\n" + "\n".join(f"class C{i}(C{i - 1}): pass" for i in range(1, 600)),
    "diamonds": "class C0: pass\n"
    + "\n".join(f"class A{i}(C{i}): pass\nclass B{i}(C{i}): pass\nclass C{i + 1}(A{i}, B{i}): pass" for i in range(60)),
    "many cases": "match x:\n" + "\n".join(f"    case {i}: y = {i}" for i in range(900)),
    "many operands": "x = " + " and ".join(["a"] * 9000) + "\ny = " + " < ".join(["a"] * 9000),
    "deep attributes": "x = y" + ".a" * 900,
    "deep expression": "x = " + "[" * 150 + "1" + "]" * 150 + "; y = str(x) == x",
    "deep blocks": "\n".join(" " * i + "if x:" for i in range(90)) + "\n" + " " * 90 + "pass",
    "decorators": "def d(f):\n    def g(*a, **k): return f(*a, **k)\n    return g\n"
    + "@d\n" * 60
    + "def f(): pass\nf()",
    "functions of functions": "def twice(f): return lambda x: f(f(x))\ng = lambda x: x\n"
    + "g = twice(g)\n" * 60
    + "g(1)",
    "joins": "import sys\nx = []\ny = {}\n"
    + "\n".join(f"if sys.argv[{i}]: x.append({i}); y['k'] = {i}\nelse: x.append(-{i}); y['j'] = 2" for i in range(400)),
    "containers of modules": "import torch.nn as nn\nl = nn.Linear(1, 1)\nfor i in range(200): l = nn.Sequential(l, l)\nm = nn.ModuleList(); m.append(m)",
}


def follow_briefly(text: str) -> Reading:
    return read(parse(text.encode(errors="surrogatepass"), "t.py"), max_steps=FEW_STEPS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_ends_small(name: str) -> None:
    tracemalloc.start()
    try:
        reading = follow_briefly(SCRIPTS[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE_MEMORY
    assert reading.machine.steps < 4 * FEW_STEPS
    if reading.trace.exhausted is not None:
        assert reading.trace.exhausted.startswith("stopped")
        assert not reading.complete


@pytest.mark.parametrize("text", [SCRIPTS["nested comprehensions"], "x = 1\n" * 70_000])
def test_what_does_not_end_in_time_is_said(text: str) -> None:
    reading = follow_briefly(text)
    assert reading.trace.exhausted == f"stopped after {FEW_STEPS} steps"
    assert not reading.complete


@pytest.mark.parametrize(
    "text", ["x = " + "(" * 3000 + ")" * 3000, "x" + ".a" * 20_000, "-" * 5000 + "1", "a" + " + a" * 60_000]
)
def test_what_nests_too_deep_is_refused_or_left_unfinished(text: str) -> None:
    # The parser of Python 3.10 takes more than later ones; then it is the evaluator that ends.
    refused, reading = "", None
    try:
        reading = follow_briefly(text)
    except PreflightError as error:
        refused = str(error)
    if reading is None:
        assert re.search(r"nested|syntax|too many", refused)
    else:
        assert (reading.trace.exhausted or "").startswith("stopped")
        assert not reading.complete


@pytest.mark.parametrize(
    "text",
    [
        "def f(n): return f(n+1) + f(n+2) + f(n+3)\nf(0)",
        "def f(n): return g(n) + g(n)\ndef g(n): return h(n) + h(n)\ndef h(n): return f(n) + f(n)\nf(0)",
        "class Net:\n    def build(self):\n        self.a = 1\n        self.build()\ndef main():\n    Net().build()\nmain()",
    ],
)
def test_recursion_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"t\.py:\d+: \S+ calls itself without end"):
        follow_briefly(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(n):\n    if n > 2: return 0\n    return f(n+1)\nf(0)",
        "def f(n):\n    assert n < 3\n    f(n+1)\ntry:\n    f(0)\nexcept AssertionError:\n    pass",
        "def f(n): return n and f(n-1)\nf(3)",
        "def f(n): return 0 if n == 0 else f(n-1)\nf(3)",
        "import sys\ndef f(n):\n    sys.exit()\n    f(n)\nf(1)",
        "def f(n): return f(n)\nif unknown:\n    f(1)",
        "def f(n): return lambda: f(n)\nf(1)",
        "def f(n): return f(n)",
    ],
)
def test_recursion_that_may_end_is_followed(text: str) -> None:
    follow_briefly(text)


WORDS = [
    "x",
    "y",
    "f",
    "self",
    "1",
    "0.5",
    "'a'",
    "None",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":",
    ",",
    ".",
    "=",
    "==",
    "+",
    "-",
    "*",
    "**",
    "/",
    "%",
    "@",
    "&",
    "not",
    "and",
    "or",
    "in",
    "is",
    "if",
    "else",
    "for",
    "while",
    "def",
    "class",
    "return",
    "yield",
    "lambda",
]
WORDS += [
    "with",
    "try",
    "except",
    "import",
    "from",
    "async",
    "await",
    "match",
    "case",
    "*",
    "->",
    ":=",
    "\n",
    "\n    ",
    "\n        ",
    "f'{x}'",
    "...",
]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_text_is_followed_or_refused(words: list[str]) -> None:
    with contextlib.suppress(PreflightError):
        follow_briefly(" ".join(words))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=80), st.sampled_from(["t.py", "t.ipynb"]))
def test_any_bytes_are_followed_or_refused(data: bytes, name: str) -> None:
    with contextlib.suppress(PreflightError):
        read(parse(data, name), max_steps=FEW_STEPS)


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(EXAMPLES), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=4), st.randoms()
)
def test_mutations_of_real_scripts_are_followed_or_refused(
    file: Path, moves: list[tuple[int, int]], random: Any
) -> None:
    lines = file.read_text().splitlines()
    for source, target in moves:
        lines.insert(target % len(lines), lines[source % len(lines)])
        words = lines[source % len(lines)].split(" ")
        random.shuffle(words)
        if source % 3 == 0:
            lines[source % len(lines)] = " ".join(words)
    with contextlib.suppress(PreflightError):
        follow_briefly("\n".join(lines))


# ---- nothing of the script is run, and nothing outside the repository is read

CANARY = """
    import torch, argparse, os, sys, subprocess
    import canary, canary.inner
    from canary import sing
    open({mark!r}, "w").write("run")
    os.system("touch " + {mark!r})
    subprocess.run(["touch", {mark!r}])
    def shout(f):
        open({mark!r}, "w").write("decorator")
        return f
    @shout
    def g(x=open({mark!r}, "w").write("default")): open({mark!r}, "w")
    class K(metaclass=type("M", (type,), {{}})):
        open({mark!r}, "w").write("class body")
        def __del__(self): open({mark!r}, "w")
    k = K()
    f"{{open({mark!r}, 'w').write('f-string')}}"
    [open({mark!r}, "w") for _ in range(3)]
    exec("open({mark!r}, 'w')")
    eval("open({mark!r}, 'w')")
    __import__("canary")
    import importlib; importlib.import_module("canary")
    import pickle, yaml, torch
    pickle.load(open("evil.pkl", "rb")); torch.load("evil.pkl"); yaml.unsafe_load("!!python/object/apply:os.system ['touch {mark}']")
    for outside in ("/etc/passwd", "../../../../../../etc/passwd", "link", "linked/passwd", "~/.bashrc", "/proc/self/environ"):
        a = open(outside).read(); b = yaml.safe_load(open(outside)); exec(open(outside).read())
    p = argparse.ArgumentParser(fromfile_prefix_chars="@")
    p.add_argument("--x", type=open, default={mark!r}); p.add_argument("--y", type=eval, default="open({mark!r}, 'w')")
    args = p.parse_args()
    input(); breakpoint(); sys.exit(); os._exit(1)
"""
SEEN: list[tuple[str, tuple[Any, ...]]] = []
WATCHING = [False]


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if WATCHING[0]:
        SEEN.append((event, args))


@pytest.fixture
def heard() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """What the interpreter is asked to do meanwhile. An audit hook cannot be removed, so it is switched."""
    if not hasattr(_hear, "added"):
        sys.addaudithook(_hear)
        _hear.added = True  # type: ignore[attr-defined]
    SEEN.clear()
    WATCHING[0] = True
    yield SEEN
    WATCHING[0] = False


def test_nothing_is_run_and_nothing_outside_is_read(tmp_path: Path, heard: list[tuple[str, tuple[Any, ...]]]) -> None:
    WATCHING[0] = False
    root, mark = tmp_path / "repository", tmp_path / "mark"
    (root / "canary").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "canary" / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\ndef sing(): open({str(mark)!r}, 'w')\n")
    (root / "canary" / "inner.py").write_text(f"open({str(mark)!r}, 'w')\nfrom canary import sing\nsing()\n")
    (root / "link").symlink_to("/etc/passwd")
    (root / "linked").symlink_to("/etc")
    (root / "train.py").write_text(textwrap.dedent(CANARY).format(mark=str(mark)))
    read(read_script(root / "train.py"))  # what the tool itself imports late is imported now
    SEEN.clear()
    WATCHING[0] = True
    reading = read(read_script(root / "train.py"))
    WATCHING[0] = False
    assert reading.trace.calls("open", "builtins.open")
    assert not mark.exists()
    assert "canary" not in sys.modules
    opened = {os.fspath(args[0]) for event, args in SEEN if event == "open" and isinstance(args[0], (str, os.PathLike))}
    assert opened
    assert {path for path in opened if not Path(path).resolve().is_relative_to(root.resolve())} == set()
    assert not any(
        event in ("exec", "import", "os.system", "subprocess.Popen", "os.exec", "pickle.find_class")
        for event, _ in SEEN
    )
    held = reading.machine.module.namespace
    assert "a" not in held or not isinstance(getattr(held["a"], "value", None), str)


def test_import_circles_and_links_out_end(follow: Any, tmp_path: Path) -> None:
    (tmp_path / "away.py").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    followed = follow(
        "import one, away, loop.loop.loop.one\nfrom one import x\nfrom two import y",
        {
            "one.py": "import two\nfrom two import y\nx = 1",
            "two.py": "import one\nfrom one import x\ny = 2",
            "three.py": "from three import *",
        },
    )
    assert followed["x"] == 1
    assert followed["y"] == 2


def test_configurations_that_explode_are_not_read(follow: Any) -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
    )
    followed = follow(
        "import yaml, json\nfrom omegaconf import OmegaConf\na = yaml.safe_load(open('laughs.yaml'))\nb = OmegaConf.load('laughs.yaml')\n"
        "c = json.load(open('deep.json'))\nd = OmegaConf.load('circle.yaml')\ne = d.a\nf = yaml.safe_load(open('deep.yaml'))",
        {
            "laughs.yaml": laughs,
            "deep.json": "[" * 100_000 + "]" * 100_000,
            "circle.yaml": "a: ${b}\nb: ${a}\n",
            "deep.yaml": "[" * 5000 + "]" * 5000,
        },
        max_steps=FEW_STEPS,
    )
    assert followed["c"] is ...
    assert followed["e"] is ...


@pytest.mark.parametrize("folder", ["evaluate", "evaluate/library", "evaluate/command_line", "evaluate/builtin"])
def test_a_library_that_bears_the_name_of_a_file_of_ours_is_unknown_like_any_other(folder: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for file in (Path(evaluate.__file__).parents[1] / folder).glob("[a-z]*.py"):
        script.write_text(
            f"import {file.stem}\na = {file.stem}.no_such_thing(1)\nb = {file.stem}.no_such_thing.of_it\n"
        )
        assert not read(read_script(script)).trace.notes


def test_a_class_that_takes_the_last_calls_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # More calls than are followed, of which the last stand in the constructor of a class that nothing makes.
    monkeypatch.setattr("preflight.source.evaluate.machine.MAX_EVENTS", 400)
    calls = "\n".join(f"x = len(str({n}))" for n in range(195))
    made = "\n".join(f"        self.a{n} = len(str({n}))" for n in range(30))
    script = tmp_path / "train.py"
    script.write_text(f"{calls}\nclass Late:\n    def __init__(self):\n{made}\n    def run(self):\n        pass\n")
    report = analyze(script)
    assert any("stopped after 400 calls" in note for note in report.notes)
