"""Delivery of what the outbox holds: couriers and webhooks."""
