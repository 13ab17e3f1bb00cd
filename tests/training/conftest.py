"""Fixtures that tests of training share."""

from tests.training.pretrained_task import prepared  # noqa: F401 (a fixture)
