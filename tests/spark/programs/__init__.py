"""Programs that the Spark tests start and kill: the owner of a store, and a driver."""
