"""Programs on other people's agent frameworks, with which examples/frameworks is tried."""
