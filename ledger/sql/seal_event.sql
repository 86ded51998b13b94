-- Encodes a field so that no two lists of fields encode alike: its length in bytes, a colon, its
-- bytes.
CREATE FUNCTION ledger_netstring(field text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN octet_length(field) || ':' || field;

-- The database seals every event: it assigns the event its place in the chain of its subject (a
-- transaction, a task, an account), the time, and a hash over the event and the hash of the event
-- before it. The writer holds a lock on the subject's row, so two events of one subject never get
-- the same place. The hash covers the digest of the reason, not the reason: the text can be erased
-- when its retention is over, and the chain still verifies.
CREATE FUNCTION ledger_seal_event() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER ledger_event_seal BEFORE INSERT ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_seal_event();
