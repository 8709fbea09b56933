"""Moving what was committed from memory and log to the base, while everybody goes on."""
