"""Reading a store beside the process that owns it, or when nobody does."""
