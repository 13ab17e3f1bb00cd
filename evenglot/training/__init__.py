"""The training loop and its parts: update, validation, saving, logging and display."""
