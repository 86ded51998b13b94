"""Reports on transactions: search and usage."""
