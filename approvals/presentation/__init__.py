"""Contents that surfaces share: labels of events and values, answer forms, what must be shown."""
