"""Query plans: which index ranges a query reads."""
