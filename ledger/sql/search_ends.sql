-- Where a transaction ends, as the map of states has it since one may be handed to its agent.
CREATE OR REPLACE TRIGGER ledger_tx_entered_ended AFTER INSERT ON ledger_transaction
    FOR EACH ROW WHEN (
        NEW.state IN ('aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'))
    EXECUTE FUNCTION ledger_add_search_terms();

CREATE OR REPLACE TRIGGER ledger_tx_ended AFTER UPDATE OF state ON ledger_transaction
    FOR EACH ROW WHEN (
        NEW.state IN ('aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused')
        AND OLD.state NOT IN (
            'aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'))
    EXECUTE FUNCTION ledger_add_search_terms();
