"""Bisection: where between what works and what fails the failure begins, with as few runs as possible."""
