"""Executes the plan of a model with numpy and writes what happens to the event log."""
