-- A citation names a text by its hash: whoever writes the row, the hash is that of the text.
ALTER TABLE ledger_policydocument ADD CONSTRAINT ledger_policy_hash_is_of_text
    CHECK (sha256 = encode(sha256(convert_to(text, 'UTF8')), 'hex'));
