"""The verdict of a draft in preview on one item: shown beside it, without effect."""

from __future__ import annotations

import logging

from django.utils.translation import gettext as _

from approvals.presentation import in_words
from ledger.models import RuleSet, RuleSetState, Transaction
from ledger.sign_off import rules
from ledger.sign_off.rules import RulesRefused, preview, sentences
from ledger.tools import contracts_of

logger = logging.getLogger(__name__)


def asked_in_preview(row: Transaction) -> str:
    """The terms by the draft in preview, in words; empty if they are the same, or without one."""
    if row.content_erased_at is not None:
        return ""
    draft = RuleSet.objects.filter(tenant=row.tenant, state=RuleSetState.PREVIEW).first()
    if draft is None:
        return ""
    try:
        compiled = rules.read(draft.number, draft.rules)
    except RulesRefused as refusal:
        logger.warning("The draft of %s cannot be read: %s", row.tenant, refusal)
        return ""
    this = Transaction.objects.filter(pk=row.pk)
    changed = preview.preview(this, compiled, contracts_of(row.tenant), most=1).changed
    if not changed:
        return ""
    after = changed[0].after
    if after.is_denied:
        return _("it is denied")
    return in_words(sentences.asked_in_words(after)) if after.seats else _("nobody has to sign")
