"""Pages of signing in: password, second steps, first start."""
