"""Pages of channels: where people are told. Those of Slack are for installations that have it."""
