"""The event chain: appending sealed events, the outbox, and the doorbell after commit."""
