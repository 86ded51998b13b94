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

-- The only UPDATE of a decision empties its reason, after the erasure of its transaction was sealed.
CREATE OR REPLACE FUNCTION ledger_decision_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied ledger_decision := OLD;
BEGIN
    emptied.reason := '';
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM ledger_event erasure
        WHERE erasure.subject = OLD.transaction_id AND erasure.kind = 'content_erased'
    ) THEN
        RAISE EXCEPTION 'UPDATE on ledger_decision is refused: it is only ever appended to'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER ledger_decision_only_erased BEFORE UPDATE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_decision_is_only_erased();
