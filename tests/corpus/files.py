"""Small files of text, compressed or not."""

import gzip

import zstandard

COMPRESS = {"txt": bytes, "gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}


def write(folder, name, content):
    """A file of this content, compressed as its name says."""
    path = folder / name
    path.write_bytes(COMPRESS[path.suffix[1:]](content))
    return path
