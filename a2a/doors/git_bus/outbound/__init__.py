"""Our requests to others: sent, and their answers collected."""
