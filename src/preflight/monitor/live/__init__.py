"""The monitor beside a run that goes on: starting it, joining its ranks, telling alarms, stopping it and going on from there."""
