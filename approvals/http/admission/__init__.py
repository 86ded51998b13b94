"""Limits before a request reaches Django: places, rates, waits."""
