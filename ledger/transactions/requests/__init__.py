"""What happens to a transaction while it waits: it is changed, talked about and given more time."""
