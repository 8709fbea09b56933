"""Programs that the tests with Spark start, and kill: the owner of a store, and a driver."""
