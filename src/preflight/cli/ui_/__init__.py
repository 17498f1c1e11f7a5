"""``preflight ui``: a local page that shows a run while it goes on."""
