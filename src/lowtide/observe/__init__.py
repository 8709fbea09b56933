"""Observing a store: statistics, metrics, and the monitor of old snapshots."""
