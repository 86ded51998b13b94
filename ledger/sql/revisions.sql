-- What a revision was is appended, and emptied only after the erasure of its transaction was sealed.
CREATE OR REPLACE FUNCTION ledger_revision_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied ledger_revision := OLD;
BEGIN
    emptied.content := '{}';
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM ledger_event erasure
        WHERE erasure.subject = OLD.transaction_id AND erasure.kind = 'content_erased'
    ) THEN
        RAISE EXCEPTION 'UPDATE on ledger_revision is refused: it is only ever appended to'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER ledger_revision_only_erased BEFORE UPDATE ON ledger_revision
    FOR EACH ROW EXECUTE FUNCTION ledger_revision_is_only_erased();
CREATE OR REPLACE TRIGGER ledger_revision_append_only BEFORE DELETE ON ledger_revision
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER ledger_revision_no_truncate BEFORE TRUNCATE ON ledger_revision
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
