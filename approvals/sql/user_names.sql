-- A user name never changes hands, because agents and people know somebody by it. Whoever makes or renames a user (admin,
-- command, SQL), the database enters the name here.
CREATE FUNCTION approvals_enter_user_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO approvals_username (name, user_id) VALUES (lower(NEW.username), NEW.id)
        ON CONFLICT (name) DO NOTHING;
    IF NOT EXISTS (
        SELECT FROM approvals_username WHERE name = lower(NEW.username) AND user_id = NEW.id
    ) THEN
        RAISE EXCEPTION 'the user name % is or was somebody else''s', NEW.username
            USING ERRCODE = 'unique_violation',
                  CONSTRAINT = 'approvals_username_never_changes_hands';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER approvals_user_name AFTER INSERT OR UPDATE OF username ON auth_user
    FOR EACH ROW EXECUTE FUNCTION approvals_enter_user_name();

-- Those who are there already.
INSERT INTO approvals_username (name, user_id) SELECT lower(username), id FROM auth_user;

-- The ledger names a person by this key.
CREATE FUNCTION approvals_refuse_new_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the key of a user is written in the ledger and never changes'
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER approvals_user_key BEFORE UPDATE OF id ON auth_user
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id)
    EXECUTE FUNCTION approvals_refuse_new_key();
