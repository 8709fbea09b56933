"""Benchmarks of Lowtide, compared with its peers and by itself; see ``python -m bench --help``."""
