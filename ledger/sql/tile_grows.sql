-- A tile of the Merkle tree may gain hashes; the hashes that it has never change.
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
