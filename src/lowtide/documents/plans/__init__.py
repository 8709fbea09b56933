"""Plans: which part of which index answers a query."""
