"""Opening a store in whatever state it was left; docs/recovery.md has the table of cases."""
