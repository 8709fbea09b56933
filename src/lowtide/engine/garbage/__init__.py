"""Which versions may go, and their going: exact by interval, invisible to every live snapshot."""
