"""The run folder: paths, event log, checkpoints, scores, and checks before a run starts or resumes."""
