"""The checks of the conformance kit. Each asks the service, and raises ``Unexpected``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Timer

import httpx

from approvals.conformance.probe import Heard, Probe, Skipped, Unexpected, WithSecret
from ledger.tools.http import CONFLICT, NOTHING_HAPPENED

LONG_AGO = timedelta(minutes=10)
ELSEWHERE = "another-tool.example"
KEPT_OUT = frozenset({401, 403})
NOT_THIS_HOST = frozenset({400, 404, 421})
AFTER_S = (0.0, 0.005, 0.02, 0.05)  # from the request to the kill
TRACES = ("Traceback (most recent call last)", "\n    at ", "Exception in thread")


def missing_signature(probe: Probe) -> None:
    _is_kept_out(probe.send(probe.request("commit", probe.body(probe.new_key()))))


def bad_signature(probe: Probe) -> None:
    request = probe.request("commit", probe.body(probe.new_key()))
    _is_kept_out(probe.send(probe.signed_by_another(request)))


def expired_signature(probe: Probe) -> None:
    request = probe.request("commit", probe.body(probe.new_key()))
    _is_kept_out(probe.send(probe.signed(request, ago=LONG_AGO)))


def early_signature(probe: Probe) -> None:
    request = probe.request("commit", probe.body(probe.new_key()))
    _is_kept_out(probe.send(probe.signed(request, ago=-LONG_AGO)))


def altered_body(probe: Probe) -> None:
    body = probe.body(probe.new_key())
    meant = probe.signed(probe.request("commit", body))
    altered = probe.request("commit", body | {"arguments": dict(probe.sample.other_arguments)})
    _is_kept_out(probe.send(_with_signature_of(meant, altered, probe)))


def other_target(probe: Probe) -> None:
    body = probe.body(probe.new_key())
    meant = probe.signed(probe.request("rollback", body))
    altered = probe.request("commit", body)
    _is_kept_out(probe.send(_with_signature_of(meant, altered, probe)))
    if isinstance(probe.signer, WithSecret):
        _reads_the_body_alone(probe)


def _reads_the_body_alone(probe: Probe) -> None:
    """A webhook signs neither path nor other headers: whoever sends it on can choose them."""
    for path in ("", "/commit"):
        heard = _sent_on(probe, "find_receipt", probe.new_key(), path)
        probe.heard.pop()  # the path is none of its own: any refusal will do
        if heard.response is not None and heard.response.status_code < 400:
            raise Unexpected(f"{heard}, to a look-up whose path or header says commit")
    key = probe.new_key()
    receipt = probe.receipt_of(_sent_on(probe, "commit", key), key)
    _is_same(receipt, probe.receipt_of(probe.ask("commit", key), key))


def _sent_on(probe: Probe, verb: str, key: str, path: str = "") -> Heard:
    """With a path, and a header that names the commit of another operation."""
    request = probe.request(verb, probe.body(key))
    request.url = httpx.URL(f"{probe.address}{path}")
    request.headers["Idempotency-Key"] = f'"{probe.new_key()}:commit"'
    return probe.send(probe.signed(request))


def other_address(probe: Probe) -> None:
    """As the owner of another tool could send on what Assent has asked of that one."""
    if isinstance(probe.signer, WithSecret):
        raise Skipped("a webhook says for whom it is: see another tool or tenant")
    body = probe.body(probe.new_key())
    passed_on = probe.request("commit", body)
    elsewhere = passed_on.url.copy_with(host=ELSEWHERE, port=None)
    meant = httpx.Request("POST", elsewhere, content=passed_on.content, headers=passed_on.headers)
    passed_on = _with_signature_of(probe.signed(meant), passed_on, probe)
    passed_on.headers["Host"] = ELSEWHERE
    heard = probe.send(passed_on)
    if heard.response is None or heard.response.status_code not in KEPT_OUT | NOT_THIS_HOST:
        raise Unexpected(str(heard))


def other_tool(probe: Probe) -> None:
    for changed in ({"tool": f"{probe.sample.tool}_too"}, {"tenant": f"{probe.sample.tenant}-too"}):
        heard = probe.ask("commit", probe.new_key(), **changed)
        if heard.answer.status < 400:
            raise Unexpected(f"{heard}, to another {next(iter(changed))}")


def replayed_nonce(probe: Probe) -> None:
    request = probe.signed(probe.request("commit", probe.body(probe.new_key())))
    first = probe.send(request)
    if first.answer.status not in {200, 202}:
        raise Unexpected(f"{first}, already to the first one")
    again = probe.send(request)
    if isinstance(probe.signer, WithSecret) and again.answer.status == first.answer.status:
        return  # one key has one effect
    _is_kept_out(again)


def plan(probe: Probe) -> None:
    probe.needs("plan")
    heard = probe.ask("plan", probe.new_key())
    planned = heard.answer.body.get("plan")
    if heard.answer.status != 200 or not isinstance(planned, dict) or not planned.get("summary"):
        raise Unexpected(str(heard))


def commit(probe: Probe) -> None:
    probe.committed()


def double_commit(probe: Probe) -> None:
    key, receipt = probe.committed()
    _is_same(receipt, probe.receipt_of(probe.ask("commit", key), key))


def commits_at_once(probe: Probe) -> None:
    key = probe.new_key()
    with ThreadPoolExecutor(4) as pool:
        heard = list(pool.map(lambda _: probe.ask("commit", key), range(4)))
    receipts = {probe.receipt_of(each, key) for each in heard if not _is_conflict(each)}
    if len(receipts) != 1:
        raise Unexpected(f"{len(receipts)} receipts: {', '.join(sorted(receipts))}")


def other_arguments(probe: Probe) -> None:
    key, _ = probe.committed()
    heard = probe.ask("commit", key, arguments=dict(probe.sample.other_arguments))
    refusal = (heard.answer.status, heard.answer.problem)
    if refusal not in {(409, CONFLICT), (422, NOTHING_HAPPENED)}:
        raise Unexpected(str(heard))


def stale_fencing(probe: Probe) -> None:
    key, _ = probe.committed()
    _conflicts(probe.ask("commit", key, fencing=4))


def lapsed_lease(probe: Probe) -> None:
    over = (datetime.now(UTC) - LONG_AGO).isoformat()
    _conflicts(probe.ask("commit", probe.new_key(), lease_until=over))


def unknown_operation(probe: Probe) -> None:
    probe.needs("find_receipt")
    heard = probe.look_up(probe.new_key())
    if heard.answer.status != 404:
        raise Unexpected(str(heard))


def look_up(probe: Probe) -> None:
    probe.needs("find_receipt")
    key, receipt = probe.committed()
    _is_same(receipt, probe.receipt_of(probe.look_up(key), key))


def rollback_after_commit(probe: Probe) -> None:
    probe.needs("rollback")
    key, _ = probe.committed()
    _conflicts(probe.ask("rollback", key))


def empty_rollback(probe: Probe) -> None:
    probe.needs("rollback")
    key = probe.new_key()
    for _ in range(2):
        _rolls_back(probe, key)


def late_commit(probe: Probe) -> None:
    probe.needs("rollback")
    key = probe.new_key()
    _rolls_back(probe, key)
    _conflicts(probe.ask("commit", key))


def late_plan(probe: Probe) -> None:
    probe.needs("plan")
    probe.needs("rollback")
    key = probe.new_key()
    _rolls_back(probe, key)
    _conflicts(probe.ask("plan", key))


def broken_body(probe: Probe) -> None:
    heard = probe.send(probe.signed(probe.broken_request()))
    if heard.response is None or heard.response.status_code < 400:
        raise Unexpected(str(heard))


def kill(probe: Probe) -> None:
    """First right after an answer; then while the service is at work, sooner and later."""
    if probe.owner is None:
        raise Skipped("say how the service is started: --start COMMAND")
    key, receipt = probe.committed()
    probe.owner.kill()
    probe.owner.start()
    _is_same(receipt, _found_again(probe, key))
    for after_s in AFTER_S:
        _kill_in_the_middle(probe, after_s)


def _kill_in_the_middle(probe: Probe, after_s: float) -> None:
    assert probe.owner is not None
    key, killer = probe.new_key(), Timer(after_s, probe.owner.kill)
    before = len(probe.heard)
    killer.start()
    heard = probe.ask("commit", key)
    killer.join()
    del probe.heard[before:]  # no answer, as was to be expected
    probe.owner.start()
    receipt = _found_again(probe, key)
    if heard.response is not None and heard.response.status_code == 200:
        _is_same(probe.receipt_of(heard, key), receipt)
    _is_same(receipt, probe.receipt_of(probe.ask("commit", key), key))


def _found_again(probe: Probe, key: str) -> str:
    """By a look-up; where that finds nothing, or there is none, by a second commit."""
    if "find_receipt" in probe.sample.routes:
        heard = probe.look_up(key)
        if heard.answer.status != 404:
            return probe.receipt_of(heard, key)
    return probe.receipt_of(probe.ask("commit", key), key)


def slow_answers(probe: Probe) -> None:
    slowest = max(probe.heard, key=lambda heard: heard.took_s)
    if slowest.took_s >= probe.timeout_s:
        raise Unexpected(f"one took {slowest.took_s:.1f} s: {slowest}")


def large_answers(probe: Probe) -> None:
    for heard in probe.heard:
        if heard.is_too_large:
            raise Unexpected(heard.trouble)


def form_of_answers(probe: Probe) -> None:
    for heard in probe.heard:
        if heard.response is not None:
            if heard.response.is_redirect:
                raise Unexpected(f"a redirect: {heard}")
            _ = heard.answer


def operations_in_answers(probe: Probe) -> None:
    for heard in probe.heard:
        if heard.operation_key and heard.response is not None:
            with suppress(Unexpected):  # that it cannot be read is another finding
                named = heard.answer.body.get("operation_key", heard.operation_key)
                if named != heard.operation_key:
                    break
    else:
        return
    raise Unexpected(str(heard))


def secrets_in_answers(probe: Probe) -> None:
    for heard in probe.heard:
        if heard.response is None:
            continue
        text = heard.response.text
        if heard.signature and heard.signature in text:
            raise Unexpected(f"the signature in its answer: {heard}")
        if any(trace in text.replace("\\n", "\n") for trace in TRACES):
            raise Unexpected(f"a stack trace in its answer: {heard}")


def _with_signature_of(meant: httpx.Request, altered: httpx.Request, probe: Probe) -> httpx.Request:
    for name in probe.signer.headers:
        altered.headers[name] = meant.headers[name]
    return altered


def _is_kept_out(heard: Heard) -> None:
    if heard.response is None or heard.response.status_code not in KEPT_OUT:
        raise Unexpected(str(heard))


def _is_conflict(heard: Heard) -> bool:
    return heard.answer.status == 409 and heard.answer.problem == CONFLICT


def _conflicts(heard: Heard) -> None:
    if not _is_conflict(heard):
        raise Unexpected(str(heard))


def _rolls_back(probe: Probe, key: str) -> None:
    heard = probe.ask("rollback", key)
    if heard.answer.status != 200:
        raise Unexpected(f"{heard}, to the rollback")


def _is_same(first: str, second: str) -> None:
    if first != second:
        raise Unexpected(f"receipt {second} after receipt {first}")
