"""Prices the plan in formulas: symbolic sizes, memory of each node and the peak."""
