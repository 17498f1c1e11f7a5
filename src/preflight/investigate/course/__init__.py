"""The course of a run: its attempts and ends, its steps, its times by one clock, what went on and what was lost."""
