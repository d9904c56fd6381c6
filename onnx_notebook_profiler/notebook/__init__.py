"""Magics, widgets and progress: the only room that knows IPython."""
