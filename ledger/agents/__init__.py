"""Agents and their tokens: enrolment, and which tools each may use."""
