"""Calibration: what measured steps say about the coefficients of the time model."""
