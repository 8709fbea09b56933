"""What was committed since the last checkpoint, in memory, and how a snapshot reads it together with the base."""
