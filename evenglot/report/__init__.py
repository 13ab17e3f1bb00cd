"""Tables and pictures that people would rather look at than at logs."""
