"""The command line: one file per command; the only place that reads arguments, prints and exits."""
