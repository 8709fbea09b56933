"""Reads and writes files of documents: JSON Lines, JSON, CSV and Parquet."""
