"""Pins: named leases on a timestamp, which other processes can read, also after a restart."""
