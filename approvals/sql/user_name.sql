-- A user name never passes to another user, because people and agents know somebody by it. The
-- database enters each name here, whether the admin, a command or SQL created or renamed the user.
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

-- Users who were created before this trigger.
INSERT INTO approvals_username (name, user_id) SELECT lower(username), id FROM auth_user;
