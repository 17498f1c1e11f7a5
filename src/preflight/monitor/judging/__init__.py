"""Windows against invariants: rows are put together, cut into examples, judged and grouped, and what repeats is not judged again."""
