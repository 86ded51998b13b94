"""The inbox: order, shares, totals, neighbouring rows."""
