"""A list that was put away is emptied: all entries of the store are one and the same list.

## What it does
Looks for `store.append(row)` where `row` is one list, made once, that `row.clear()` or `del row[:]` empties for the next round.

## Why
`append` keeps the list itself and copies nothing.
When it is emptied and filled again, every entry of the store shows what was filled in last.
A replay buffer then holds its newest episode many times, and training never sees another one.

## Fix
Make a new list for each round (`row = []`), or put a copy away: `store.append(list(row))`.

## When to ignore
When the store is read to its end before the list is emptied.

## References
- Python documentation, FAQ: why did changing list y also change list x
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.containers import Containers, Places, Put, containers_of, handled_elsewhere
from preflight.check.queries.handed_lists import last_word
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="kept-list-emptied",
    code="DAT029",
    severity="warning",
    confidence="likely",
    layer="D",
    beside=True,
    tags=("data",),
)

BAD = (
    """
import random
import torch
episode, replay = [], []
for _ in range(100):
    episode.clear()
    for step in range(20):
        episode.append(torch.randn(4))
    replay.append(episode)
    batch = torch.stack(random.choice(replay))
""",
    """
import torch
class Agent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.states, self.rewards = [], []
        self.seen = []
    def play(self, env):
        for part in (self.states, self.rewards):
            part.clear()
        done = False
        while not done:
            state, reward, done = env.step()
            self.states.append(state)
            self.rewards.append(reward)
        self.seen.append(self.states)
    def draw(self, number):
        return self.seen[number]
""",
    """
from collections import deque
memory = deque(maxlen=50)
def collect(env, rounds):
    rows: list = list()
    for _ in range(rounds):
        for transition in env.roll():
            rows.append(transition)
        memory.append(rows)
        del rows[:]
""",
    """
class Memory:
    def __init__(self):
        self.rows, self.kept = [], []
    def add(self, row):
        self.rows.append(row)
    def end(self):
        self.kept.append(self.rows)
        self.rows.clear()
""",
    """
import random
def play(env, rounds):
    rows, kept = [], []
    for _ in range(rounds):
        while True:
            rows.clear()
            rows.extend(env.roll())
            if rows[-1].won:
                kept.append(rows)
                break
    return random.choice(kept)
""",
)

GOOD = (
    """
episode, replay = [], []
for _ in range(100):
    for step in range(20):
        episode.append(step)
    replay.append(list(episode))
    episode.clear()
""",
    """
class Agent:
    def __init__(self):
        self.states, self.seen = [], []
    def play(self, env):
        self.states = []
        for state in env:
            self.states.append(state)
        self.seen.append(self.states)
    def reset(self):
        self.states.clear()
""",
    """
class Agent:
    def __init__(self):
        self.states, self.seen = [], []
    def begin(self):
        self.states = []
    def play(self, env):
        self.states.append(env)
        self.seen.append(self.states)
        self.begin()
    def drop(self):
        self.states.clear()
""",
    """
rows, batches = [], []
for row in source:
    rows.append(row)
    if len(rows) == 8:
        batches.append(rows)
        train(batches)
        batches.clear()
        rows.clear()
""",
    """
import queue
rows, waiting = [], queue.Queue()
batches = waiting.queue
for row in source:
    batches.append(rows)
    rows.clear()
""",
    """
class Logger:
    def __init__(self):
        self.losses, self.all = [], []
        self.register()
    def register(self):
        self.all.append(self.losses)
    def step(self, loss):
        self.losses.append(loss)
    def reset(self):
        self.losses.clear()
""",
    """
rows = []
for row in source:
    stored = []
    rows.append(row)
    stored.append(rows)
    train(stored)
    rows.clear()
""",
    """
def collect(env, number):
    stored = []
    for _ in range(number):
        rows = []
        while True:
            rows.clear()
            rows.extend(env.roll())
            if rows[-1].won:
                stored.append(rows)
                break
    return stored
""",
    """
def last_outputs(model, loader, epochs):
    kept, rows = [], []
    for epoch in range(epochs):
        rows.clear()
        for x in loader:
            rows.append(model(x))
        if epoch == epochs - 1:
            kept.append(rows)
    return kept
""",
    """
def write(pending, file):
    for rows in pending:
        file.writelines(rows)
    pending.clear()
def run(source, file):
    rows, batches = [], []
    for row in source:
        rows.append(row)
        if len(rows) == 8:
            batches.append(rows)
            write(batches, file)
            rows.clear()
""",
    """
import heapq
from elsewhere import flush
def run(source):
    rows, batches, heap, views = [], [], [], []
    for chunk in source:
        rows.extend(chunk)
        batches.append(rows)
        flush(batches)
        heap.append(rows)
        heapq.heappop(heap)
        if not views:
            views.append(rows)
        rows.clear()
""",
    """
from collections import deque
def latest(source):
    rows, shown = [], deque(maxlen=1)
    for chunk in source:
        rows.clear()
        rows.extend(chunk)
        shown.append(rows)
        yield shown[0]
""",
    """
class Board:
    def __init__(self):
        self.curve, self.curves = [], []
    def begin(self, first):
        if first:
            self.curves.append(self.curve)
        self.curve.clear()
    def point(self, value):
        self.curve.append(value)
""",
    """
rows, batches = [], []
def start_anew():
    global batches
    batches = []
for row in source:
    rows.append(row)
    batches.append(rows)
    start_anew()
    rows.clear()
""",
)

_EMPTY = ("list", "deque", "collections.deque", "dict", "set", "defaultdict", "collections.defaultdict")


def check(context: Context) -> Iterator[Finding]:
    """Look at what is put away in each scope of each script."""
    for script in context.reading.scripts:
        if ".append(" not in "\n".join(script.lines):
            continue
        top = containers_of(script.tree.body, attributes=False)
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*script.nodes(ast.FunctionDef)]
        functions += script.nodes(ast.AsyncFunctionDef)
        scopes = [top, *(containers_of(node.body, attributes=True) for node in script.nodes(ast.ClassDef))]
        scopes += [containers_of(node.body, attributes=False) for node in functions]
        found = [(scope, put, _rounds(put)) for scope in scopes for put in scope.kept]
        found = [row for row in found if _own(row[0], row[1].row, row[2]) and _emptied(*row)]
        taken, replaced = handled_elsewhere(script.tree) if found else (set(), set())
        for scope, put, rounds in found:
            outer = scope if put.store in scope.made else top
            loose = last_word(put.store) in taken | replaced or put.store in outer.emptied
            if not loose and last_word(put.row) not in replaced and _own(outer, put.store, rounds):
                yield _finding(context, (script, put.call), put.store, put.row)


def _rounds(put: Put) -> Places:
    """The rounds in which something is put away again and again; none where what the store holds is asked before.

    The innermost loop is none of them where it is left behind the call, or where the call belongs to one pass of it.
    """
    if any(ast.unparse(part) == put.store for test in put.tests for part in ast.walk(test)):
        return ()
    last = put.behind[-1] if put.behind else None
    if put.row.startswith("self.") or isinstance(last, ast.Return | ast.Raise):
        return put.place if put.row.startswith("self.") else ()
    loop = put.place[-1] if put.place else None
    passes = (
        {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)} if isinstance(loop, ast.For) else ()
    )
    one = any(
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and any(isinstance(part, ast.Name) and part.id in passes for part in ast.walk(test))
        for test in put.tests
    )
    return put.place[:-1] if one or isinstance(last, ast.Break) else put.place


def _own(scope: Containers, name: str, place: Places) -> bool:
    """Whether a name stands for one container that was made before the rounds in which something is put away."""
    made = scope.made.get(name, [])
    if name.startswith("self."):
        return bool(made) and all(_is_empty(value) and not where for value, where in made)
    return bool(made) and all(_is_empty(value) and not (place and place[-1] in where) for value, where in made)


def _emptied(scope: Containers, put: Put, rounds: Places) -> bool:
    """Whether the list is emptied in the rounds in which it is put away.

    An attribute may be emptied in any method, where the one that puts it away fills it too, or empties it right behind:
    what is put away once, when an object is set up, is a register of its lists.
    """
    if not rounds or put.row not in scope.emptied:
        return False
    if put.row.startswith("self."):
        filled = any(rounds[-1] in where for where in scope.filled.get(put.row, []))
        return filled or put.row in containers_of(list(put.behind), attributes=True).emptied
    return any(rounds[-1] in where for where in scope.emptied[put.row])


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        short = any(word.arg == "maxlen" and ast.unparse(word.value) == "1" for word in value.keywords)
        return ast.unparse(value.func) in _EMPTY and not short  # of a store for one entry nothing is lost
    return isinstance(value, ast.List | ast.Dict | ast.Set)


def _finding(context: Context, place: tuple[Script, ast.AST], store: str, row: str) -> Finding:
    return context.finding(
        RULE,
        place,
        f"{row} is put into {store} as it is and emptied for the next round: all entries are this one list",
        evidence=[Evidence("lists in the store", 1, arithmetic=f"{row} is made once")],
        fix=Fix(
            title="put a copy away",
            instruction=f"write {store}.append(list({row})), or make a new list where {row} is emptied",
            expected="each entry keeps what was filled into it",
        ),
    )
