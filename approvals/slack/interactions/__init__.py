"""People's acts in Slack. One click passes through these modules, in this order:

1. ``receive``: reads Slack's payload and acknowledges it within 3 seconds (``deadlines``).
2. ``commands``: what is to be done, as JSON for a row.
3. ``command_queue``: stores the click as a row and enqueues its id.
4. ``handle_click``: the job ``react``. Claims the row and decides or answers, once.
5. ``authorization``: whether this person may do it, with this button, from this message.
6. ``replies``: the job ``respond``. Shows the person the outcome, a form or the Home tab; a reply
   is a row like a click.
"""
