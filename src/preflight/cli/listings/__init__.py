"""One file per thing that ``preflight list`` can list; each has ``rows()`` and says which columns are shown where."""
