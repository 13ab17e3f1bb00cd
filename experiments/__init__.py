"""Experiments on real corpora: grids, stored results, and the tables and figures generated from them."""
