"""The benchmark of the pipeline: archive, time travel, vacuum and audit, as the number of versions grows."""
