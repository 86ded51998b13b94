"""Agents: ``callers`` (who a token belongs to), ``allowances`` (their tools), ``enrolment``."""
