"""Lowtide at work, live in the terminal: `python -m demo`."""
