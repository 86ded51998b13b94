-- Keeps writers out of the log until the end of the database transaction, for whoever makes a
-- checkpoint. LOCK TABLE takes rights that the application does not have; this is all of them that
-- it needs.
CREATE FUNCTION ledger_keep_writers_out() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    LOCK TABLE ledger_event IN SHARE MODE;
END $$;
