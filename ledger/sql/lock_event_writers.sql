-- Blocks writers of events until the end of the database transaction, while a checkpoint is made.
-- LOCK TABLE needs rights that the application's role does not have; this function has only this one.
CREATE FUNCTION ledger_keep_writers_out() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    LOCK TABLE ledger_event IN SHARE MODE;
END $$;
