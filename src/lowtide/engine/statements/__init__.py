"""Statements: how one call becomes one instant to read, one write buffer, one commit and one retry policy."""
