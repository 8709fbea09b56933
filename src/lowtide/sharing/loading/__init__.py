"""Loading: many documents that another process has staged, taken into a collection at once or not at all."""
