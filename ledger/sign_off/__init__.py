"""The rules of a tenant about who signs off what agents propose, groups of people, and brakes."""
