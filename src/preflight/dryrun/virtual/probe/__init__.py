"""The small real probe: the script once more, with real numbers on the CPU, made small where it has to be.

Fake tensors show shapes, types and memory. What hangs on numbers (a loss that is NaN, a mask that leaks, a gradient that
is always zero) shows only where there are some.
"""
