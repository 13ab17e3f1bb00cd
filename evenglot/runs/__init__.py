"""The run folder: paths, the event log, checkpoints, scores, and what may change on resume."""
