"""Results: what a run cost, joined with what the formulas say."""
