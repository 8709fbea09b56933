"""Maintenance of a store: verify, inspect, backup and compact."""
