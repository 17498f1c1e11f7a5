"""Rules about checkpointing: one file for one rule."""
