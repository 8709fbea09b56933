"""Checkpoints: moving commits from memory and log to the base, while commits and reads continue."""
