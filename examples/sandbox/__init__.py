"""The outside world, played: an airline, a payment provider and a cloud.

As strict as the real ones, and it counts every effect that it ever performs.
"""
