"""Measurements of Lowtide, beside its peers and by itself; see ``python -m bench --help``."""
