-- Also returns the last id that was given out: a larger one was chosen by somebody past our roles,
-- and must not become the end of the log.
DROP FUNCTION ledger_keep_writers_out();
CREATE FUNCTION ledger_keep_writers_out() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    LOCK TABLE ledger_event IN SHARE MODE;
    RETURN (SELECT last_value FROM ledger_event_id_seq);
END $$;
