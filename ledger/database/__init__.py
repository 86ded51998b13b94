"""PostgreSQL beyond the ORM: prepared statements, multi-table inserts, session limits."""
