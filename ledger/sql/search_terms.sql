-- What ended transactions are found by: a row for each word of each one, in the order of time.
-- Triggers write it where a transaction ends, so no way of ending one can forget it, and preparing
-- one costs nothing. Names are found without their accents, and amounts as numbers.

-- The words of a text: runs of letters and digits, in lower case. Searches split theirs with it too.
CREATE OR REPLACE FUNCTION ledger_words(content text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(DISTINCT left(word, 60))
    FROM regexp_split_to_table(lower(left(content, 20000)), '[^[:alnum:]]+') word
    WHERE word <> ''
$$;

-- The text with its letters as they are without combining marks: "Chloé" as "Chloe".
CREATE OR REPLACE FUNCTION ledger_unaccented(content text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(normalize(content, NFD), U&'[\0300-\036F]', '', 'g')
$$;

-- Each term once. Also the words as they are written: searches look for them, and erasing deletes
-- what it finds here.
CREATE OR REPLACE FUNCTION ledger_search_terms(tx ledger_transaction) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(DISTINCT term) FROM unnest(
        ARRAY[':risk:' || tx.risk_level, ':tool:' || tx.tool, ':id:' || right(tx.id::text, 8)]
        || ledger_words(concat_ws(
            ' ', tx.action_summary, tx.proposed_by_name, tx.operation_key, tx.tool,
            CASE WHEN tx.content_erased_at IS NULL THEN tx.amount END))
        || ledger_words(ledger_unaccented(concat_ws(' ', tx.action_summary, tx.proposed_by_name)))
    ) term
$$;

-- With the rights of its owner: while a migration runs, the application has none on this table yet.
CREATE OR REPLACE FUNCTION ledger_add_search_terms() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO ledger_searchterm (tenant, term, transaction_id)
    SELECT NEW.tenant, term, NEW.id FROM unnest(ledger_search_terms(NEW)) term
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION ledger_forget_search_terms() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM ledger_searchterm
    WHERE tenant = OLD.tenant AND transaction_id = OLD.id
        AND term = ANY (ledger_search_terms(OLD)) AND term <> ALL (ledger_search_terms(NEW));
    RETURN NULL;
END $$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION ledger_add_search_terms() SET search_path = %I, pg_temp',
                   current_schema());
    EXECUTE format('ALTER FUNCTION ledger_forget_search_terms() SET search_path = %I, pg_temp',
                   current_schema());
END $$;

CREATE OR REPLACE TRIGGER ledger_tx_entered_ended AFTER INSERT ON ledger_transaction
    FOR EACH ROW WHEN (NEW.state IN ('aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'))
    EXECUTE FUNCTION ledger_add_search_terms();

CREATE OR REPLACE TRIGGER ledger_tx_ended AFTER UPDATE OF state ON ledger_transaction
    FOR EACH ROW WHEN (
        NEW.state IN ('aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused')
        AND OLD.state NOT IN ('aborted', 'committed', 'compensated', 'failed', 'handed_over', 'refused'))
    EXECUTE FUNCTION ledger_add_search_terms();

CREATE OR REPLACE TRIGGER ledger_tx_content_erased AFTER UPDATE OF content_erased_at ON ledger_transaction
    FOR EACH ROW WHEN (OLD.content_erased_at IS NULL AND NEW.content_erased_at IS NOT NULL)
    EXECUTE FUNCTION ledger_forget_search_terms();
