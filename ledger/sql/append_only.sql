-- Rows of these tables are appended and never changed or deleted. Two exceptions stand in their own
-- files: erase_reason.sql (events, decisions) and tile_grows.sql.
CREATE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: it is only ever appended to', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER ledger_event_append_only BEFORE DELETE ON ledger_event
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_event_no_truncate BEFORE TRUNCATE ON ledger_event
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_decision_append_only BEFORE DELETE ON ledger_decision
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_decision_no_truncate BEFORE TRUNCATE ON ledger_decision
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_checkpoint_append_only BEFORE UPDATE OR DELETE ON ledger_checkpoint
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_checkpoint_no_truncate BEFORE TRUNCATE ON ledger_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_cosignature_append_only BEFORE UPDATE OR DELETE ON ledger_cosignature
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_cosignature_no_truncate BEFORE TRUNCATE ON ledger_cosignature
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_tile_append_only BEFORE DELETE ON ledger_tile
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_tile_no_truncate BEFORE TRUNCATE ON ledger_tile
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
