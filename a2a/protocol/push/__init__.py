"""Push notifications: their configuration and delivery."""
