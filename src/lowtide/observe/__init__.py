"""What a store says of itself: statistics, metrics, and the monitor of old snapshots."""
