-- A transaction takes its part of budgets until nothing came of it, and again when a receipt comes
-- late: then also where there is no room.
CREATE FUNCTION ledger_move_charges() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_nothing boolean := NEW.state IN ('refused', 'aborted', 'failed') AND NEW.late_receipt = '';
BEGIN
    -- Locked in the order in which they are charged, so that no two of us wait for each other.
    PERFORM FROM ledger_budget budget
        WHERE budget.id IN (SELECT budget_id FROM ledger_charge WHERE transaction_id = NEW.id)
        ORDER BY budget.owner COLLATE "C", budget.measure COLLATE "C", budget.period COLLATE "C"
        FOR UPDATE;
    WITH moved AS (
        UPDATE ledger_charge
        SET released_at = CASE WHEN is_nothing THEN clock_timestamp() END
        WHERE transaction_id = NEW.id AND (released_at IS NULL) = is_nothing
        RETURNING budget_id, amount
    )
    UPDATE ledger_budget budget
    SET used = budget.used + CASE WHEN is_nothing THEN -moved.amount ELSE moved.amount END
    FROM moved WHERE budget.id = moved.budget_id;
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_transaction_moves_charges
    AFTER UPDATE OF state, late_receipt ON ledger_transaction FOR EACH ROW
    WHEN ((OLD.state IN ('refused', 'aborted', 'failed') AND OLD.late_receipt = '')
        IS DISTINCT FROM (NEW.state IN ('refused', 'aborted', 'failed') AND NEW.late_receipt = ''))
    EXECUTE FUNCTION ledger_move_charges();

CREATE TRIGGER ledger_grant_append_only BEFORE DELETE ON ledger_grant
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_grant_no_truncate BEFORE TRUNCATE ON ledger_grant
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_charge_append_only BEFORE DELETE ON ledger_charge
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_charge_no_truncate BEFORE TRUNCATE ON ledger_charge
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
