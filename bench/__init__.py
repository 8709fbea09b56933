"""Measurements of Lowtide beside sqlite3 and py-lmdb; see ``python -m bench --help``."""
