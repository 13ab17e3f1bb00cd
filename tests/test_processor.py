"""How much of the machine a process takes."""

import pytest

from evenglot.processor import cores, threads


@pytest.mark.parametrize(
    ("asked", "local", "processes", "expected"),
    [
        (None, None, 1, cores()),
        ("1", None, 1, 1),
        ("", None, 1, cores()),
        ("none", None, 1, cores()),
        ("0", None, 1, cores()),
        ("1,4", None, 1, 1),  # for nested regions
        ("1000", None, 1, cores()),
        (None, None, 1000, 1),
        (None, "2", 2, max(1, cores() // 2)),
        ("1", "2", 1, cores()),  # by torchrun, not by a person
        ("1", "1", 1, 1),
    ],
)
def test_threads_are_those_of_the_environment_or_a_share_of_the_cores(monkeypatch, asked, local, processes, expected):
    for name, value in {"OMP_NUM_THREADS": asked, "LOCAL_WORLD_SIZE": local}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert threads(processes) == expected
