-- Events name an agent by its tenant and slug (agent:acme/helpdesk). Therefore neither changes, and an
-- agent is deactivated, never deleted: no later agent can take its name.
CREATE FUNCTION ledger_refuse_agent_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the tenant and slug of an agent are written in the ledger: deactivate it'
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER ledger_agent_is_renamed_never BEFORE UPDATE OF tenant_id, slug ON ledger_agent
    FOR EACH ROW WHEN (OLD.tenant_id IS DISTINCT FROM NEW.tenant_id
                       OR OLD.slug IS DISTINCT FROM NEW.slug)
    EXECUTE FUNCTION ledger_refuse_agent_change();
CREATE TRIGGER ledger_agent_is_kept BEFORE DELETE ON ledger_agent
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_agent_change();
