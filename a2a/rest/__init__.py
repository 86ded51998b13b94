"""The plain dialect: REST for clients that do not speak A2A, and for workers."""
