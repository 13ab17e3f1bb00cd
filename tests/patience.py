"""How long tests wait for other processes. Nothing is asserted about durations: this only ends a test that hangs."""

PATIENCE = 600  # seconds; long, since a busy machine is slow
