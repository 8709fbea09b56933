"""Tests of the prepared statements."""
