-- What a decision was made by must read the same years later.
CREATE TRIGGER ledger_policydocument_append_only BEFORE UPDATE OR DELETE ON ledger_policydocument
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_policydocument_no_truncate BEFORE TRUNCATE ON ledger_policydocument
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
