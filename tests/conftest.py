"""Settings for all tests."""

from hypothesis import settings

settings.register_profile("evenglot", max_examples=40, deadline=None)  # a busy machine is no reason to fail
settings.register_profile("thorough", max_examples=500, deadline=None)  # pytest --hypothesis-profile=thorough
settings.load_profile("evenglot")
