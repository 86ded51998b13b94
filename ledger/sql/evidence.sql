-- Evidence is appended and never changed; it is deleted only after the erasure of its transaction was sealed.
CREATE OR REPLACE FUNCTION ledger_evidence_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM ledger_event erasure
        WHERE erasure.subject = OLD.transaction_id AND erasure.kind = 'content_erased'
    ) THEN
        RAISE EXCEPTION 'DELETE on ledger_evidence is refused: it is only ever appended to'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER ledger_evidence_only_erased BEFORE DELETE ON ledger_evidence
    FOR EACH ROW EXECUTE FUNCTION ledger_evidence_is_only_erased();
CREATE OR REPLACE TRIGGER ledger_evidence_append_only BEFORE UPDATE ON ledger_evidence
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER ledger_evidence_no_truncate BEFORE TRUNCATE ON ledger_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
