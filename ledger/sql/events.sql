-- A field so that no two lists of fields read alike: its length in bytes, a colon, its bytes.
CREATE FUNCTION ledger_netstring(field text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN octet_length(field) || ':' || field;

-- Every event is sealed by the database, whoever writes it: it gets its place in the chain of its
-- transaction, the database's clock, and a hash over itself and the event before it. The writer
-- holds the row of the transaction, so two events of one transaction never get the same place.
CREATE FUNCTION ledger_seal_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before ledger_event;
BEGIN
    SELECT * INTO before FROM ledger_event
        WHERE transaction_id = NEW.transaction_id ORDER BY seq DESC LIMIT 1;
    NEW.seq := coalesce(before.seq, 0) + 1;
    NEW.from_state := coalesce(before.to_state, '');
    NEW.previous_hash := coalesce(before.hash, '');
    NEW.at := clock_timestamp();
    NEW.hash := encode(sha256(convert_to(
        ledger_netstring(NEW.previous_hash)
        || ledger_netstring(NEW.transaction_id::text)
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

CREATE TRIGGER ledger_event_seal BEFORE INSERT ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_seal_event();

CREATE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: it is only ever appended to', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER ledger_event_append_only BEFORE UPDATE OR DELETE ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_event_no_truncate BEFORE TRUNCATE ON ledger_event
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_checkpoint_append_only BEFORE UPDATE OR DELETE ON ledger_checkpoint
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_checkpoint_no_truncate BEFORE TRUNCATE ON ledger_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
