"""Opening a store in any state in which it was left: docs/recovery.md has the table of cases."""
