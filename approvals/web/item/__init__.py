"""Pages of one transaction: item, records, reviews."""
