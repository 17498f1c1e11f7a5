"""What check, plan and monitor say of a run, put beside its incident; and what would have told it before."""
