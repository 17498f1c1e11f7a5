"""Learns from recorded runs what must hold: counts examples by context, finds preconditions, drops what is implied."""
