"""The rules of a tenant about who signs off what agents propose, and groups of people."""
