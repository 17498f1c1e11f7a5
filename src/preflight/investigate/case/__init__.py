"""What was read of a run as a case: who is who, and every line that means something as an event."""
