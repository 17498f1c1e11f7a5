"""Words: frozen values that every room speaks in. Imports nothing of ours."""
