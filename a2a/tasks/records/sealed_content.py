"""Facts that a task's events seal: its content, retention and transaction. Pure.

A row may be changed by whoever has the application's database role; a sealed event may not. So the
verifier and the sweeper take from the events alone when content may be erased, and what it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from a2a import states
from a2a.tasks.records import digests
from ledger.events import SealedContent, erasure_in
from ledger.seals import Link

# Left of a question when its content was erased.
EMPTY_QUESTION = digests.question_text("", {}, [])
# What an erasure gives the digest of: columns of the task, and what belongs to it.
ERASED = frozenset(
    {
        "input",
        "result",
        "metadata",
        "stage",
        "note",
        "reason",
        "errors",
        "messages",
        "artifacts",
        "questions",
    }
)


def retain_until(links: Sequence[Link]) -> str:
    """Until when the content is kept, in microseconds since 1970; empty where no event says it.

    The first event says it, and the one that makes the task stand for a transaction; a term in
    any other event counts for nothing.
    """
    terms = [
        str(link.says["retain_until"])
        for position, link in enumerate(links)
        if (position == 0 or link.kind == states.AWAIT_SIGN_OFF.kind)
        and "retain_until" in link.says
    ]
    return terms[-1] if terms else ""


def content_digests(links: Sequence[Link]) -> dict[str, str]:
    """The digests of the input and of the result, as they were sealed."""
    results = [
        str(link.says.get("result_digest")) for link in links if link.kind == states.COMPLETE.kind
    ]
    return {
        "input": str(links[0].says.get("input_digest")) if links else "",
        "result": (results or [digests.digest_of("null")])[-1],
    }


def transaction_of(links: Sequence[Link]) -> str:
    """The id of the transaction that the task stands for; empty without one."""
    ids = [
        str(link.says["transaction"])
        for link in links
        if link.kind in (states.AWAIT_SIGN_OFF.kind, states.FAIL.kind)
        and "transaction" in link.says
    ]
    return ids[-1] if ids else ""


def question_digests(links: Sequence[Link]) -> dict[str, tuple[str, str]]:
    """The digests of what was asked and of its answer, by the id of the question."""
    asked, answered = {}, {}
    for link in links:
        if link.kind == states.ASK.kind:
            asked[str(link.says.get("question"))] = str(link.says.get("asked_digest"))
        elif link.kind == states.ANSWER.kind:
            answered[str(link.says.get("question"))] = str(link.says.get("answer_digest"))
    none = digests.digest_of("null")
    return {question: (digest, answered.get(question, none)) for question, digest in asked.items()}


def contents(links: Sequence[Link]) -> dict[str, str]:
    """The digests of what the tables must hold of the task and its questions, and who answered."""
    questions = question_digests(links)
    content = content_digests(links)
    if erasure_in(links) is not None:
        none = digests.digest_of("null")
        content = dict.fromkeys(content, none)
        questions = dict.fromkeys(questions, (digests.digest_of(EMPTY_QUESTION), none))
    for question, (asked, answer) in questions.items():
        content |= {f"question {question}": asked, f"answer to {question}": answer}
    for link in links:
        if link.kind == states.ANSWER.kind:
            content[f"answerer of {link.says.get('question')}"] = link.principal
    return content


CONTENT = SealedContent(ERASED, retain_until, content_digests, contents)
