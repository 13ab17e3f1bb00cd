"""A grid of runs: strategies x seeds x sets of directions. Only the missing runs are trained."""
