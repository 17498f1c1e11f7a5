"""Trace folders: segments that grow while a program runs, and the Parquet files that they are sealed to."""
