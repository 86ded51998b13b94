"""People: their accounts, roles and rights, and notices of changes to them."""
