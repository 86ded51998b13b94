"""REST requests answered before Django's middleware, many in one query."""
