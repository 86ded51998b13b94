"""Messages that Assent posts and keeps up to date in Slack."""
