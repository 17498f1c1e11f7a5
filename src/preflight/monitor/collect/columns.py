"""The tables of a trace: which kinds of rows there are, and the columns of each.

One table for those who write and those who read.
The type of a column says how it is stored, not what is allowed: a value of another type is kept as it is.

* ``count``: an integer that mostly grows by little; stored as differences.
* ``int``, ``float``, ``bool``: a number; a float may be NaN or infinite.
* ``word``: a string that occurs again and again; stored once for each block.
* ``text``: a string that does not.
* ``shape``: a list of integers that occurs again and again.
* ``ints``, ``floats``: a list of numbers, any of which may be None; stored as their bytes.
* ``json``: a list or an object.

Any value may be None.
"""

from __future__ import annotations

MAGIC = b"PFB1"
"""What a block begins with; the digit is the version of the format."""

HEAD = 12
"""Bytes before the payload of a block: the magic, its length and its CRC-32, each of four bytes, the lowest first."""

_DECLARED = {
    "begin": "q:count t:count wall:float role:word rank:int local_rank:int world:int pid:int parent:int host:word"
    " python:word torch:word argv:json directory:word recorder:word",
    "call": "q:count e:count t:count d:int i:int s:int name:word object:word parent:count thread:int place:word"
    " context:word args:json result:json error:word",
    "variable": "q:count i:int id:count name:text kind:word root:word module:word dtype:word shape:shape device:word"
    " trainable:bool numel:int optimizer:int group:int shared:int spread:json",
    "state": "q:count t:count i:int s:int moment:word what:word level:word ids:shape norm:floats bits:ints extra:json",
    "tensor": "q:count i:int s:int call:count object:word position:word dtype:word shape:shape device:word norm:float"
    " requires_grad:bool",
    "scalar": "q:count t:count i:int s:int name:word object:word value:float",
    "memory": "q:count t:count i:int s:int device:word allocated:int reserved:int peak:int peak_reserved:int capacity:int"
    " resident:int",
    "batch": "q:count i:int s:int loader:word fetch:int epoch:int size:int indices:ints bits:ints shapes:json"
    " dtypes:json",
    "seed": "q:count t:count worker:int loader:word torch:int numpy:int python:int epoch:int",
    "settings": "q:count i:int options:json constants:json",
    "iteration": "q:count t:count i:int s:int",
    "group": "q:count id:int name:word ranks:json axis:word",
    "warning": "q:count i:int category:word message:text place:word count:int",
    "thinned": "q:count i:int what:word every:int reason:word share:float",
    "paused": "q:count i:int s:int since:int since_s:int reason:word",
    "trouble": "q:count i:int where:word error:text",
    "end": "q:count t:count i:int s:int how:word code:int error:text spent_ns:int dropped:int",
}


def _parse(declared: str) -> dict[str, str]:
    """Return the types of the columns by name, in order."""
    return dict(column.split(":", 1) for column in declared.split())


TABLES: dict[str, dict[str, str]] = {kind: _parse(declared) for kind, declared in _DECLARED.items()}
"""The columns of each kind, in the order of a row, with their types."""

HEAVY = {"state": 7, "batch": 7}
"""Kinds whose rows may hold long lists, with the column whose length says how long."""

WRITER = "writer"
"""Where a row of ``trouble`` says it is from when the writer had to let rows go: some that were put before are missing."""

REPEATED = "repeated passes"
"""What was thinned, where passes of one place are counted (see ``repeated.py``); of this ``every`` says how many are told."""

GAP = "paused"
"""The kind of the rows that say that iterations before were passed over, with nothing told of them."""

TOLD = 4
"""How many iterations are told in a row, where the recorder pauses between them."""

PAUSED = "iterations"
"""What was thinned, where the recorder pauses (see ``pauses.py``); of so many iterations some are told."""

THREADS = "threads"
"""Where the recorder ended its work, since several threads train (see ``trainers.py``)."""

ITERATION = {kind: list(columns).index("i") for kind, columns in TABLES.items() if "i" in columns}
"""Where the number of the iteration is in a row, for the kinds that have one."""
