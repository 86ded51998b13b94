"""Running Assent on one machine: processes, supervisor, embedded services."""
