"""Garbage collection: dropping exactly the versions that no live snapshot sees."""
