"""Balancing in other training systems."""
