"""From a proposal to a prepared transaction: plan, check, insert."""
