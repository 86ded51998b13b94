"""What people do in Slack: from the request to the verb and the reply."""
