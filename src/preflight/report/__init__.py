"""The door that shows a report: one module per format; only the one that was asked for is imported."""
