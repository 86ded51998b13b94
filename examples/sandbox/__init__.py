"""A simulation of the outside world: an airline, a payment provider and a cloud.

It is as strict as the real ones, and counts every effect that it performs.
"""
