CREATE FUNCTION ledger_tile_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.level <> OLD.level OR NEW.index <> OLD.index
        OR substring(NEW.hashes FOR length(OLD.hashes)) <> OLD.hashes THEN
        RAISE EXCEPTION 'a hash of tile %/% would change: tiles only ever grow',
            OLD.level, OLD.index USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER ledger_tile_grows BEFORE UPDATE ON ledger_tile
    FOR EACH ROW EXECUTE FUNCTION ledger_tile_grows();
CREATE TRIGGER ledger_tile_append_only BEFORE DELETE ON ledger_tile
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_tile_no_truncate BEFORE TRUNCATE ON ledger_tile
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

CREATE TRIGGER ledger_cosignature_append_only BEFORE UPDATE OR DELETE ON ledger_cosignature
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_cosignature_no_truncate BEFORE TRUNCATE ON ledger_cosignature
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

CREATE TRIGGER ledger_checkpoint_append_only BEFORE UPDATE OR DELETE ON ledger_checkpoint
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_checkpoint_no_truncate BEFORE TRUNCATE ON ledger_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
