"""The skills that Assent itself has: prepare a transaction, ask a person."""
