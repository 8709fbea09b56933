"""Loading: documents that another process has staged are written to a collection atomically, all of them or none."""
