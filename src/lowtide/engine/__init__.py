"""The engine: versions, log, base, checkpoints, garbage and transactions."""
