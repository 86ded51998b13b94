"""Git buses and their requests in the admin."""
