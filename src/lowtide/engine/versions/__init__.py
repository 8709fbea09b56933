"""The versions in memory, committed since the last checkpoint, and how a snapshot reads them together with the base."""
