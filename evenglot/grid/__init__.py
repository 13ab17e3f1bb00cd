"""Many runs: every strategy with every seed, in every direction; what is missing is run, what is there is not."""
