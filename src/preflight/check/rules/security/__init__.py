"""Rules about security: one file for one rule."""
