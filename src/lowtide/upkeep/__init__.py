"""Looking after a store: is it whole (verify), what is in it (inspect), a copy (backup), a smaller file (compact)."""
