"""Redis within a time limit: connections, the doorbell, which processes live."""
