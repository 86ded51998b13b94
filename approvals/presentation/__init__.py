"""What surfaces show: labels of events and values, forms for answers, and what must be shown."""
