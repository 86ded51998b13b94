-- Events name a person by this key.
CREATE FUNCTION approvals_refuse_new_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the key of a user is written in the ledger and never changes'
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER approvals_user_key BEFORE UPDATE OF id ON auth_user
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id)
    EXECUTE FUNCTION approvals_refuse_new_key();
