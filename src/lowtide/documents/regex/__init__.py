"""Regular expressions in time that does not explode: which ones would in ``re``, and the automaton that runs those."""
