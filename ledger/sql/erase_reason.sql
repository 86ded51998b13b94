-- The only UPDATE of an event empties its reason (and what that was made from), after the erasure was sealed in the same chain.
CREATE OR REPLACE FUNCTION ledger_event_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied ledger_event := OLD;
BEGIN
    emptied.reason := '';
    emptied.reason_source := NULL;
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM ledger_event erasure
        WHERE erasure.subject = OLD.subject AND erasure.seq > OLD.seq
            AND erasure.kind IN ('content_erased', 'task_content_erased')
    ) THEN
        RAISE EXCEPTION 'UPDATE on ledger_event is refused: it is only ever appended to'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER ledger_event_only_erased BEFORE UPDATE ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_event_is_only_erased();

-- A decision's only UPDATEs empty its reason, after the erasure of its transaction was sealed, or
-- mark it as withdrawn, after its maker's withdrawal was sealed, or a revision that it is not on.
CREATE OR REPLACE FUNCTION ledger_decision_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed ledger_decision := OLD;
BEGIN
    changed.reason := '';
    IF NEW IS NOT DISTINCT FROM changed AND EXISTS (
        SELECT FROM ledger_event erasure
        WHERE erasure.subject = OLD.transaction_id AND erasure.kind = 'content_erased'
    ) THEN
        RETURN NEW;
    END IF;
    changed := OLD;
    changed.is_withdrawn := true;
    IF NEW IS NOT DISTINCT FROM changed AND EXISTS (
        SELECT FROM ledger_event withdrawal
        WHERE withdrawal.subject = OLD.transaction_id AND (
            withdrawal.principal = OLD.principal AND withdrawal.kind = 'approval_withdrawn'
                AND withdrawal.details::jsonb ->> 'decision_at'
                    = (extract(epoch FROM OLD.at) * 1000000)::bigint::text
            OR withdrawal.kind = 'revised'
                AND withdrawal.details::jsonb ->> 'replaces' = OLD.intent_digest
        )
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'UPDATE on ledger_decision is refused: it is only ever appended to'
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER ledger_decision_only_erased BEFORE UPDATE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_decision_is_only_erased();
