"""The language server: what an editor shows of a check while a script is written."""
