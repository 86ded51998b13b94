"""Django's backend for PostgreSQL, with a bound on every answer: ``DATABASES`` names it."""
