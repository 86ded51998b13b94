-- From here on a chain is that of a subject, which may be a transaction or something of an upper
-- room (a task). For transactions the subject is the transaction, so every hash stays what it was.
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
        || ledger_netstring(NEW.reason)
        || ledger_netstring(NEW.details)
        || ledger_netstring((extract(epoch FROM NEW.at) * 1000000)::bigint::text),
        'UTF8')), 'hex');
    RETURN NEW;
END $$;
