-- The hash of an event is over the digest of its reason instead of the reason itself, so that the
-- text can be erased when its retention is over and the chain still verifies.
CREATE OR REPLACE FUNCTION ledger_seal_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before ledger_event;
BEGIN
    SELECT * INTO before FROM ledger_event
        WHERE subject = NEW.subject ORDER BY seq DESC LIMIT 1;
    NEW.seq := coalesce(before.seq, 0) + 1;
    NEW.from_state := coalesce(before.to_state, '');
    NEW.previous_hash := coalesce(before.hash, '');
    NEW.at := clock_timestamp();
    NEW.reason_digest := encode(sha256(convert_to(NEW.reason, 'UTF8')), 'hex');
    NEW.hash := encode(sha256(convert_to(
        ledger_netstring(NEW.previous_hash)
        || ledger_netstring(NEW.subject::text)
        || ledger_netstring(NEW.seq::text)
        || ledger_netstring(NEW.tenant)
        || ledger_netstring(NEW.kind)
        || ledger_netstring(NEW.from_state)
        || ledger_netstring(NEW.to_state)
        || ledger_netstring(NEW.principal)
        || ledger_netstring(NEW.principal_name)
        || ledger_netstring(NEW.via)
        || ledger_netstring(NEW.reason_digest)
        || ledger_netstring(NEW.details)
        || ledger_netstring((extract(epoch FROM NEW.at) * 1000000)::bigint::text),
        'UTF8')), 'hex');
    RETURN NEW;
END $$;

-- The only UPDATE of an event: its reason is emptied, after the erasure was sealed in its chain.
CREATE FUNCTION ledger_event_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied ledger_event := OLD;
BEGIN
    emptied.reason := '';
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

-- The same for a decision.
CREATE FUNCTION ledger_decision_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
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

DROP TRIGGER ledger_event_append_only ON ledger_event;
CREATE TRIGGER ledger_event_append_only BEFORE DELETE ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_event_only_erased BEFORE UPDATE ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_event_is_only_erased();
DROP TRIGGER ledger_decision_append_only ON ledger_decision;
CREATE TRIGGER ledger_decision_append_only BEFORE DELETE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_decision_only_erased BEFORE UPDATE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_decision_is_only_erased();
