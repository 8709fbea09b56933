"""Other processes: what they learn of the owner of a store, and how they read beside it."""
