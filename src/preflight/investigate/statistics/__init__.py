"""Exact tests and intervals that verification, events and series share; the standard library is enough for them."""
