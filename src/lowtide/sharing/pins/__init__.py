"""Pins: leases on a timestamp that other processes, and later ones, can read at."""
