"""Messages that Assent posts in Slack and keeps up to date.

``channel`` turns events into deliveries and sends them; ``routing`` says where a message goes,
``posting`` talks to Slack about it. Interactions use ``posting``; ``recipients`` is for the pages.
"""
