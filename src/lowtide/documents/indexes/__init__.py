"""Indexes: what they are made of, which entries a document has in them, and how they are built."""
