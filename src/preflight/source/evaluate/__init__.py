"""The evaluator: what an expression of a script is worth, without running it."""
