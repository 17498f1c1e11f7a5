"""From a failed run to its cause, its fix and the proof that it is fixed."""
