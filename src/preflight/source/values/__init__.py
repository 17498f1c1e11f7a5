"""What an expression of a script is worth, as far as it can be known without running it.

Values form a graph: a tensor remembers the call that made it and the values that went in,
so that a rule can ask where a value comes from. Identity matters: two names for one optimizer are one value.
"""

from preflight.source.values.callables import Bound, Class, Func, Method, Partial
from preflight.source.values.choices import MAX_OPTIONS, Choice, Phi, join, options_of, settle
from preflight.source.values.kinds import RANKS_TOLD, Dict, Ext, Known, Module, Obj, Seq, Site, Unknown, Value
from preflight.source.values.plainly import MAX_PARTS, plain, weighed
from preflight.source.values.reasons import why_unknown

__all__ = [
    "MAX_OPTIONS",
    "MAX_PARTS",
    "RANKS_TOLD",
    "Bound",
    "Choice",
    "Class",
    "Dict",
    "Ext",
    "Func",
    "Known",
    "Method",
    "Module",
    "Obj",
    "Partial",
    "Phi",
    "Seq",
    "Site",
    "Unknown",
    "Value",
    "join",
    "options_of",
    "plain",
    "settle",
    "weighed",
    "why_unknown",
]
