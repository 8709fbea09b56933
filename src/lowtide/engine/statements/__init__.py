"""Statements: how one call becomes one instant to read, one buffer to write, one commit, and one policy of retries."""
