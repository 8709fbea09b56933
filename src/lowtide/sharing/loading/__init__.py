"""Loading: many documents that another process has staged are written to a collection, all at once or not at all."""
