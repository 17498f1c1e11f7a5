"""The evaluator agrees with Python: each text is followed, and run for real, and the names compared."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

TEXTS: dict[str, str] = {
    "literals": """
        a = 1; b = 2.5; c = "x"; d = b"y"; e = None; f = True; g = 3 + 4j; h = 1_000_000; i = 0x1F; j = 3e-4; k = -7
        l = "one" "two"; m = [1, 2, (3, 4)]; n = {"a": 1, "b": [2]}; o = (1,); p = []; q = {}
    """,
    "arithmetic": """
        a = 7 // 2; b = -7 // 2; c = -7 % 3; d = 7 / 2; e = 2 ** 10; f = 2 ** -1; g = 1 << 5; h = 0b1010 | 5; i = 6 & 3
        j = 6 ^ 3; k = ~5; l = -(-3); m = +4; n = not 0; o = 10 - 3 - 2; p = 2 ** 3 ** 2; q = True + True
        r = 4 * 32 * 1024; s = 3e8 / 1e3; t = "ab" * 3; u = [0] * 3; v = (1, 2) + (3,); w = "%d-%s" % (3, "x"); x = "%.2f" % 1.5
    """,
    "comparison": """
        a = 1 < 2 < 3; b = 1 < 2 > 3; c = "a" in "abc"; d = 3 not in [1, 2]; e = None is None; f = 1 == 1.0; g = "a" < "b"
        h = [1, 2] == [1, 2]; i = (1, 2) != (1, 3); j = {"a": 1} == {"a": 1}; k = "x" in {"x": 1}; l = 2 in (1, 2); m = [] is not None
    """,
    "logic": """
        a = 0 or 5; b = 3 and 4; c = None or "x" or "y"; d = [] and 1; e = not []; f = 1 if 2 > 1 else 3; g = "" or None
        h = 0 and undefined_name; i = (x := 5) + x
    """,
    "deleted": """
        a = [1, 2, 3, 4, 5]; del a[0]; b = a[0]; c = len(a)
        d = [1, 2, 3, 4, 5]; del d[-1], d[1]; e = d[1]; f = len(d)
        g = list(range(9)); del g[2:5]; h = g[2]; i = len(g); del g[::2]; j = g[0]
    """,
    "sets": """
        a = len({1, 1, 2}); b = len({x % 2 for x in range(5)}); c = sum({3, 3, 4}); d = sorted({2, 1, 2}); e = len({(1, 2), (1, 2)})
        f = {1, 2}; f.add(1); f.update([2, 3]); f = len(f); g = len(set("hello")); h = len({1, 1.0, True}); i = len([*{5, 5}, 5])
        j = set()
        for letter in ["a", "b", "a"]:
            j.add(letter)
        j = len(j)
    """,
    "sets together": """
        a = {1, 2, 3}; b = sorted(a.difference({2})); c = 2 in a.difference({2}); d = 1 in a.intersection({2, 1}); e = len(a.union({9}, [8]))
        f = sorted(a - {2}); g = 2 in (a & {1}); h = sorted(a ^ {3, 4}); i = 3 in a.symmetric_difference({3, 4}); j = len(a | {1, 7})
        k = a.issubset({1, 2, 3}); l = a.isdisjoint([4]); m = {1}.issuperset(a); n = sorted(set("hello") - set("help"))
        o = {"lr": 1, "wd": 2}; del o["lr"]; p = "lr" in o; q = len(o); r = [1, 2, 1].index(1)
    """,
    "text": """
        name = "gpt"; width = 768
        a = f"{name}-{width}"; b = f"{width:>8d}|"; c = f"{3.14159:.2f}"; d = f"{name!r}"; e = f"{width=}"; f = f"{{}}"
        g = "a,b".split(","); h = "-".join(["a", "b"]); i = "Ab".lower() + "Ab".upper(); j = " x ".strip(); k = "{}-{x}".format(1, x=2)
        l = "abc"[1]; m = "abcdef"[1:4:2]; n = "abc"[::-1]; o = "a.b".replace(".", "/"); p = "file.yaml".endswith(".yaml")
        q = len("abc"); r = f"{width // 2:,}"; s = f"{'x':*^5}"; t = f"{width:{'>'}{10}}"; u = "x".startswith(("x", "y"))
    """,
    "containers": """
        a = [1, 2, 3]; a.append(4); a[0] = 9; a.extend([5, 6]); b = a[-1]; c = a[1:3]; d = len(a); a.insert(0, 0); e = a.pop(); f = a.pop(0)
        g = {"x": 1}; g["y"] = 2; g.update(z=3); g.update({"w": 4}); h = g.get("x"); i = g.get("q", 7); j = list(g.keys())
        k = list(g.items()); l = g.pop("x"); m = g.setdefault("n", 5); n = {**g, "o": 1}; o = [*a, *[7]]; p = (*a,)
        q, *r = [1, 2, 3]; (s, t), u = (1, 2), 3; v = dict(a=1, b=2); w = dict([("k", 1)]); x = sorted([3, 1, 2]); y = list(reversed([1, 2]))
        z = sum([1, 2, 3]); aa = max(1, 5, 2); ab = min([4, 2]); ac = list(zip([1, 2], "ab")); ad = list(enumerate("ab", 1)); ae = list(range(3))
        af = {"a": {"b": {"c": 1}}}["a"]["b"]["c"]; ag = [1, 2, 3].index(2); ah = g.copy(); ah["only"] = 1; ai = "only" in g
        aj = [[0] * 2 for _ in range(2)]; ak = a; ak.append(100); al = a[-1]; am = list(map(str, [1, 2])); an = any([0, 1]); ao = all([1, 0])
        del g["y"]; ap = "y" in g; aq = {"a": 1} | {"b": 2}; ar = list({"p": 1}.values()); au = tuple([1, 2]); av = bool([]); aw = abs(-3)
        ax = round(2.567, 1); ay = divmod(7, 2); az = int("12") + int(3.9); ba = float("1e-3"); bb = str(5); bc = int("ff", 16)
        bd = [3, 1, 2]; bd.sort(); be = [1, 2, 3]; be.reverse(); bf = [1, 2, 1].count(1); bg = [1, 2]; bg.remove(1); bh = [1, 2]; bh.clear()
        bi = sorted([3, 1, 2], reverse=True); bj = sum([1, 2], 10); bk = max([1, 2], default=0); bl = list(filter(None, [0, 1, 2]))
    """,
    "comprehensions": """
        a = [x * 2 for x in range(4)]; b = [x for x in range(10) if x % 2 == 0]; c = {k: v for k, v in [("a", 1), ("b", 2)]}
        d = [(i, j) for i in range(2) for j in range(i + 1)]; e = sum(x for x in [1, 2]); f = [[j for j in range(i)] for i in range(3)]
        g = {v: k for k, v in {"a": 1}.items()}; x = "kept"; h = [x for x in "ab"]; i = dict((k, k * 2) for k in (1, 2))
        j = [y for y in range(3) for _ in range(2)]; k = [last := z for z in range(3)]; l = last
    """,
    "functions": """
        def f(a, b=2, *args, c=3, **kw): return [a, b, list(args), c, kw]
        a = f(1); b = f(1, 5, 6, 7, c=8, d=9); c = f(b=1, a=2); d = f(*[1, 2, 3], **{"c": 4, "e": 5})
        def g(x, /, y, *, z=1): return x + y + z
        e = g(1, y=2); h = (lambda p, q=3: p * q)(2)
        def counter():
            n = 0
            def up():
                nonlocal n
                n += 1
                return n
            return up
        up = counter(); i = up(); j = up()
        def outer(k):
            def inner(v): return v * k
            return inner
        k = outer(3)(4)
        total = 0
        def add(v):
            global total
            total += v
        add(2); add(3)
        def early(v):
            if v > 3:
                return "big"
            if v < 0: return "neg"
            return "small"
        l = early(5); m = early(1); n = early(-1)
        def fact(n): return 1 if n <= 1 else n * fact(n - 1)
        o = fact(2)
        def none(): pass
        p = none()
        def bag(x, acc=[]):
            acc.append(x)
            return list(acc)
        q = bag(1); r = bag(2)
        def many(): return 1, 2
        s, t = many()
        def deflt(v=total): return v
        total = 99
        u = deflt()
        fs = [lambda i=i: i for i in range(3)]
        v = [f() for f in fs]
        late = [lambda: ii for ii in range(3)]
        w = [f() for f in late]
    """,
    "classes": """
        class A:
            kind = "a"
            def __init__(self, n, scale=2):
                self.n = n
                self.scaled = n * scale
            def twice(self): return self.n * 2
            @property
            def half(self): return self.n / 2
            @staticmethod
            def three(): return 3
            @classmethod
            def make(cls, v): return cls(v + 1)
            def __len__(self): return self.n
            def __call__(self, x): return x + self.n
            def __getitem__(self, i): return i * 10
        class B(A):
            kind = "b"
            def __init__(self, n):
                super().__init__(n, scale=3)
                self.extra = 1
            def twice(self): return super().twice() + 1
        o = A(4); p = B(5)
        a = o.n; b = o.scaled; c = o.twice(); d = o.half; e = A.three(); f = A.make(1).n; g = p.twice(); h = p.scaled; i = p.kind; j = A.kind
        k = len(o); l = o(3); m = o[2]; n = isinstance(p, A); q = isinstance(o, B); r = type(p).__name__; s = B.__name__; t = p.extra
        o.n = 7; u = o.twice(); v = getattr(o, "n"); w = getattr(o, "missing", 5); setattr(o, "dyn", 6); x = o.dyn; y = hasattr(o, "dyn"); z = hasattr(o, "no")
        A.kind = "c"; aa = A(1).kind
        class C:
            items = []
            def __init__(self): self.items.append(1)
        C(); C(); ab = len(C.items); ac = vars(A(2))["n"]; ad = issubclass(B, A)
        class M1:
            def who(self): return "m1"
        class M2(M1):
            def who(self): return "m2" + super().who()
        class M3(M1):
            def who(self): return "m3" + super().who()
        class D(M2, M3):
            def who(self): return "d" + super().who()
        ae = D().who()
        class E:
            def __eq__(self, other): return True
            def __add__(self, other): return 42
            def __bool__(self): return False
            def __contains__(self, x): return x == 3
            def __iter__(self): return iter([1, 2])
            def __enter__(self): return "in"
            def __exit__(self, *a): return None
        af = E() == 3; ag = E() + 1; ah = not E(); ai = 3 in E(); aj = list(E())
        with E() as ak: pass
    """,
    "inheritance from a mixin order": """
        class Base:
            x = 1
            def __init__(self, **kw):
                for k, v in kw.items():
                    setattr(self, k, v)
        class Left(Base): x = 2
        class Right(Base): x = 3; y = 4
        class Both(Left, Right): pass
        a = Both.x; b = Both(z=5).z; c = Both().y
        class Early: tag = "early"
        class Mid(Early): pass
        class Other(Early): tag = "other"
        class Last(Mid, Other): pass
        d = Last.tag
    """,
    "dataclasses": """
        from dataclasses import dataclass, field, asdict, replace
        @dataclass
        class Base:
            width: int = 64
            name: str = "base"
            layers: list = field(default_factory=lambda: [1, 2])
        @dataclass
        class Conf(Base):
            name: str = "conf"
            depth: int = 12
            heads: int = field(default=4)
            head: int = field(init=False, default=0)
            def __post_init__(self):
                self.head = self.width // self.heads
        c = Conf(); a = c.width; b = c.name; d = c.head; e = c.layers; f = Conf(128).head; g = Conf(depth=3).depth; h = Conf(heads=8).head
        i = asdict(Conf())["depth"]; j = replace(Conf(), depth=9).depth; k = Conf(128, "x", [], 5).depth
        l1 = Conf(); l1.layers.append(3); l = Conf().layers
    """,
    "namedtuple and enum": """
        from typing import NamedTuple
        from collections import namedtuple
        from enum import Enum
        class P(NamedTuple):
            x: int
            y: int = 2
        p = P(1); a = p.x; b = p.y; c = P(1, y=5).y
        Q = namedtuple("Q", ["u", "v"]); q = Q(1, v=2); d = q.u; e = q.v
        class Color(Enum):
            RED = "red"
            BLUE = "blue"
        f = Color.RED.value; g = Color("blue").value; h = Color.RED == Color.RED; i = Color.RED == Color.BLUE
        m, n = q; o = p[0]; r = len(p)
    """,
    "branches": """
        a = 0
        if a: b = 1
        elif not a: b = 2
        else: b = 3
        if a is None: c = 1
        else: c = 2
        d = 1
        if d > 0:
            d = d + 1
            if d > 1: d *= 10
        match d:
            case 1: e = "one"
            case 20 | 30: e = "twenty"
            case _: e = "other"
        try:
            f = 5
        except ValueError:
            f = 6
        else:
            g = 7
        finally:
            h = 8
        match [1, 2]:
            case [x, y]: i = x + y
            case _: i = 0
    """,
    "loops": """
        a = []
        for i in range(5):
            if i == 3: break
            if i == 1: continue
            a.append(i)
        else:
            a.append("else")
        b = 0
        for i in [1, 2, 3]: b += i
        c = {}
        for k, v in zip("ab", [1, 2]): c[k] = v
        d = 1
        for w in (64, 128): d = d * w
        e = 0
        for i in range(2):
            for j in range(3): e += i * j
        f = []
        for name in ["x", "y"]:
            for n in range(2): f.append(f"{name}{n}")
        g = i
        while False: g = "never"
        for i in []: h = 1
        else: h = 2
        j0 = []
        for i, (p, q) in enumerate([(1, 2), (3, 4)]): j0.append(i + p + q)
        k = None
        for k in range(3): pass
    """,
    "loops that run out of sight": """
        def find(items):
            for i in items:
                if i > 1: return i
            return None
        a = find([1, 2, 3])
        def count():
            n = 0
            for _ in range(3):
                n += 1
            return n
        b = count()
        def first(items):
            for item in items:
                return item
        c = first([7, 8])
    """,
    "generators": """
        def gen(n):
            for i in range(n): yield i * 2
        a = list(gen(3)); b = sum(gen(3))
        def two():
            yield 1
            yield 2
        c = list(two()); d = [x for x in two()]; e = next(iter([5, 6])); f = next(two())
        def deleg():
            yield from [1, 2]
            yield 3
        g = list(deleg())
        it = iter([1, 2, 3]); h = next(it); i = next(it)
        j = dict((k, v) for k, v in [("a", 1)])
    """,
    "decorators": """
        import functools
        def plus(fn):
            @functools.wraps(fn)
            def wrapper(*args, **kwargs):
                return fn(*args, **kwargs) + 1
            return wrapper
        def times(k):
            def deco(fn):
                def wrapper(*a, **kw): return fn(*a, **kw) * k
                return wrapper
            return deco
        @plus
        def f(x): return x
        @times(3)
        @plus
        def g(x): return x
        a = f(1); b = g(1)
        registry = {}
        def register(name):
            def deco(cls):
                registry[name] = cls
                return cls
            return deco
        @register("net")
        class Net:
            size = 3
        c = registry["net"].size; d = registry["net"]().size
        @functools.lru_cache
        def cached(x): return x + 1
        e = cached(2)
        h = functools.partial(f, 4)(); i = functools.reduce(lambda p, q: p + q, [1, 2, 3])
        class Deco:
            def __init__(self, fn): self.fn = fn
            def __call__(self, x): return self.fn(x) * 100
        @Deco
        def z(x): return x
        j = z(2)
    """,
    "library": """
        import math, os, os.path, itertools, copy
        from collections import OrderedDict, defaultdict, Counter
        from pathlib import Path
        from types import SimpleNamespace
        a = math.sqrt(16); b = math.ceil(2.1); c = math.log2(8); d = math.pi > 3; e = os.path.join("a", "b"); f = math.prod([2, 3])
        g = OrderedDict([("x", 1)])["x"]; h = copy.deepcopy([1, [2]]); h[1].append(3); i = SimpleNamespace(z=1).z; j = str(Path("a") / "b")
        k = list(itertools.chain([1], [2])); l = list(itertools.product([1, 2], [3])); m = os.path.basename("a/b.py"); n = os.path.splitext("b.py")[1]
        o = Path("a/b.txt").suffix; p = Path("a/b.txt").stem; q = Path("x/y").name; r = math.gcd(12, 18); s = math.floor(2.9); t = math.inf > 1
        dd = defaultdict(list); dd["a"].append(1); u = dd["a"]; x = copy.copy({"a": 1})
    """,
    "deep copies are apart": """
        import copy
        a = {"x": [1]}; b = copy.deepcopy(a); b["x"].append(2); c = a["x"]; d = [a]; e = d[:]; e[0]["x"].append(9); f = a["x"]
        class K:
            def __init__(self): self.v = [1]; self.n = 1
        k = K(); k2 = copy.deepcopy(k); k2.n = 5; k2.v.append(2); g = k.n; h = k.v; i = k2.n; j = k2.v
    """,
    "scopes": """
        x = "global"
        def f():
            x = "local"
            def g(): return x
            return g()
        a = f(); b = x
        class K:
            x = "class"
            def m(self): return x
        c = K().m(); d = K.x
        def h(n=x): return n
        x = "changed"; e = h(); y = 1
        def late(): return y
        y = 2; g = late()
        def shadow(len): return len
        i = shadow(3); del y
    """,
    "assignment": """
        a = b = [1]; a.append(2); c, d = 1, 2; c, d = d, c; e = [0, 0, 0]; e[1] = 5; f = {}; f["k"] = {}; f["k"]["j"] = 1; g = f["k"]["j"]
        class O: pass
        o = O(); o.x = 1; o.x += 2; h = o.x; i = [1, 2, 3, 4]; i[1:3] = [9]; j = 5; j -= 1; j **= 2; j //= 3; k: int = 4; l: str
        *m, n = [1, 2, 3]; p = [1]; q = p; q += [2]; r = (1,); s = r; s += (2,); t = "a"; t += "b"; u = {"n": 1}; u["n"] += 1
    """,
}


# Where the evaluator may say that it does not know. It must never say something else than Python.
MAY_BE_UNKNOWN = {
    "containers": {"bl"},
    "classes": {"ai"},
    "namedtuple and enum": {"d", "e", "m", "n"},
    "branches": {"x", "y", "i"},
    "generators": {"b"},
    "library": {"u"},
}


def run_for_real(text: str) -> dict[str, Any]:
    """Run a text of this file and return its plain names."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(text), "text", "exec"), scope)
    return {key: value for key, value in scope.items() if not key.startswith("__") and is_plain(value)}


def is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(map(is_plain, value.values()))
    return value is None or type(value) in (int, float, complex, str, bytes, bool)


@pytest.mark.parametrize("name", TEXTS)
def test_names_are_worth_what_python_says(name: str, follow: Any) -> None:
    real = run_for_real(TEXTS[name])
    followed = follow(TEXTS[name])
    assert followed.trace.exhausted is None
    unknown = {key for key in real if followed[key] is ...}
    wrong = {key: (followed[key], value) for key, value in real.items() if not same(followed[key], value)}
    assert {key: pair for key, pair in wrong.items() if key not in unknown} == {}
    assert unknown <= MAY_BE_UNKNOWN.get(name, set())


def same(a: Any, b: Any) -> bool:
    return bool(type(a) is type(b) and a == b)
