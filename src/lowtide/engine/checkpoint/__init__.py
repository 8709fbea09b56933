"""Moving what was committed from memory and log to the base, while commits and reads go on."""
