"""The product on one machine: its list of processes, their supervisor, PostgreSQL and Redis."""
