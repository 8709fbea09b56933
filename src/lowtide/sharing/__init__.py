"""Shares a store between processes: how other processes reach the owner of a store, and how they read next to it."""
