"""Documents in files: JSON Lines, JSON, CSV and Parquet, read and written in batches."""
