"""Background work: the queues, the RQ jobs, and the sweeper."""
