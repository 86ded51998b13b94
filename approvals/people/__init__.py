"""People: accounts, roles, rights, second operators, and notices to them."""
