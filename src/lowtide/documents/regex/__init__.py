"""Regular expressions without exponential time: detects those that ``re`` cannot run, and runs them by an automaton."""
