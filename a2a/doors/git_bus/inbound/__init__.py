"""Requests of others: received, admitted, answered."""
