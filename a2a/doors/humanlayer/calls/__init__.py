"""Function calls: proposed, bound to a tool here, told of, erased."""
