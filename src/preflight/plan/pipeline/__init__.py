"""The pipeline, event by event: which stage does what when, and how long it waits."""
