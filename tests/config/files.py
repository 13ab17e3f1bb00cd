"""Files for configurations to name."""


def write(folder, *files):
    """Write files of one line."""
    for name in files:
        (folder / name).write_text("x\n")
