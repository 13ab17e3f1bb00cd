import pytest

TED = {"bel": 4509, "aze": 5946, "glg": 10017, "slk": 61470, "ces": 103093, "tur": 182470, "por": 184755, "rus": 208458}


@pytest.fixture
def ted():
    """The paper's related languages and their sizes."""
    return dict(TED)
