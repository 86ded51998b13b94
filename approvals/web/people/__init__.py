"""Pages of people and their rights."""
