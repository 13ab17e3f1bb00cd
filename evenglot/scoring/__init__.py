"""How good are the translations of a run?"""
