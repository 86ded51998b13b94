"""The transparency log: a Merkle tree over all events, signed checkpoints, witnesses."""
