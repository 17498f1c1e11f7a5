"""How far the formulas are from published measurements: rows in the words of a plan, errors, coverage."""
