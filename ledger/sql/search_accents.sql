-- Names are found without their accents, and amounts as numbers.

-- The text with its letters as they are without combining marks: "Chloé" as "Chloe".
CREATE OR REPLACE FUNCTION ledger_unaccented(content text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(normalize(content, NFD), U&'[\0300-\036F]', '', 'g')
$$;

-- Also the words as they are written: searches look for them, and erasing deletes what it finds here.
CREATE OR REPLACE FUNCTION ledger_search_terms(tx ledger_transaction) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT ARRAY[':risk:' || tx.risk_level, ':tool:' || tx.tool, ':id:' || right(tx.id::text, 8)]
        || ledger_words(concat_ws(
            ' ', tx.action_summary, tx.proposed_by_name, tx.operation_key, tx.tool,
            CASE WHEN tx.content_erased_at IS NULL THEN tx.amount END))
        || ledger_words(ledger_unaccented(concat_ws(' ', tx.action_summary, tx.proposed_by_name)))
$$;
