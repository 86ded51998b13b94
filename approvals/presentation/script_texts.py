"""The words that scripts write: ``#words`` in the page, read by static/js/words.js."""

from __future__ import annotations

from django.utils.translation import gettext as _, ngettext


def texts_for_scripts() -> dict[str, str]:
    """Each by its name, in the active language. ``{…}`` is filled in by the script.

    Words that are counted have two entries: ``…_one`` and ``…_other``.
    """
    return {
        "time_is_up": _("time is up"),
        "minutes_left": _("{minutes} left"),  # 3:07
        "hours_left": _("{hours} h {minutes} left"),
        "days_left": _("{days} d {hours} h left"),
        "just_now": _("just now"),
        "minutes_ago": _("{count} min ago"),
        "hours_ago": _("{count} h ago"),
        "days_ago": _("{count} d ago"),
        "live": _("Live"),
        "not_live": _("Not live. Reconnecting…"),
        "last_update": _("last update {seconds} s ago"),
        "new_row": _("New: {summary}"),
        "new_rows_one": ngettext("{count} new", "{count} new", 1),
        "new_rows_other": ngettext("{count} new", "{count} new", 2),
        "expires_in": _("expires in {left}"),
        "just_expired_one": ngettext("{count} just expired", "{count} just expired", 1),
        "just_expired_other": ngettext("{count} just expired", "{count} just expired", 2),
        "press_enter": _("Enter approves it."),
        "meanwhile": _("Meanwhile: {line}. What you typed is kept."),
        "done_approve": _("Approved."),
        "undo_offered": _("Approved. Z undoes it for {seconds} seconds."),
        "undone": _("You withdrew your approval. Nothing was carried out."),
        "done_reject": _("Rejected."),
        "done_send-back": _("Sent back."),
        "done_resolve": _("Recorded."),
        "done_answer": _("Answered."),
        "done_compensate": _("Begun."),
        "done_receipt": _("Done, receipt {receipt}."),
        "done_with_receipt": _("Done · {receipt}."),
        "next": _("Next: {summary}"),
        "nothing_next": _("Nothing else waits for you."),
        "not_sent": _("Assent did not answer. Nothing was decided; try again."),
        "copied": _("Copied"),
        "not_signed": _("Your passkey did not sign. Nothing was decided; try again."),
        "cannot_sign": _(
            "This browser cannot use passkeys. Nothing was decided; open it in one that can."
        ),
        "left_unsigned": _(
            "It was changed while you signed. Nothing was decided; look at it again."
        ),
    }
