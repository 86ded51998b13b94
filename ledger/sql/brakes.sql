-- Asked by whatever begins something with an effect, in the database transaction that begins it.
-- Two statements, each with a snapshot of its own: whoever waits for the lock sees every brake that
-- was committed before. `put` commits its brake and then takes the lock for itself alone, so when
-- it returns, all that were about to begin have committed, and everybody after them sees the brake.
CREATE OR REPLACE FUNCTION ledger_is_stopped(of_tenant text, of_agent text, of_tool text)
RETURNS boolean LANGUAGE plpgsql VOLATILE COST 10000 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(108243400222067);
    RETURN EXISTS (
        SELECT FROM ledger_brake brake
        WHERE brake.counted_at IS NULL AND brake.lifted_at IS NULL
            AND (brake.until IS NULL OR brake.until > clock_timestamp())
            AND brake.tenant IN ('', of_tenant)
            AND brake.agent IN ('', of_agent)
            AND brake.tool IN ('', of_tool)
    );
END $$;

-- The time between these two in which a brake stopped them; where several did, it counts once.
CREATE OR REPLACE FUNCTION ledger_time_stopped(
    of_tenant text, of_agent text, of_tool text, since timestamptz, upto timestamptz
) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(upper(stop) - lower(stop)), interval '0')
    FROM (
        SELECT unnest(range_agg(tstzrange(
            greatest(brake.at, since), least(brake.lifted_at, brake.until, upto)
        ))) AS stop
        FROM ledger_brake brake
        WHERE brake.tenant IN ('', of_tenant)
            AND brake.agent IN ('', of_agent)
            AND brake.tool IN ('', of_tool)
            AND greatest(brake.at, since) < least(brake.lifted_at, brake.until, upto)
    ) AS stops
$$;

-- A brake is put and lifted once; nothing else about it changes.
CREATE OR REPLACE FUNCTION ledger_brake_is_only_lifted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    later text[] := ARRAY['lifted_at', 'lifted_by', 'lifted_by_name', 'counted_at'];
BEGIN
    IF to_jsonb(OLD) - later IS DISTINCT FROM to_jsonb(NEW) - later
        OR (OLD.lifted_at IS NOT NULL
            AND (OLD.lifted_at, OLD.lifted_by, OLD.lifted_by_name)
                IS DISTINCT FROM (NEW.lifted_at, NEW.lifted_by, NEW.lifted_by_name))
        OR (OLD.counted_at IS NOT NULL AND OLD.counted_at IS DISTINCT FROM NEW.counted_at)
        OR (NEW.counted_at IS NOT NULL AND NEW.lifted_at IS NULL
            AND (NEW.until IS NULL OR NEW.until > clock_timestamp()))
    THEN
        RAISE EXCEPTION 'UPDATE on ledger_brake is refused: a brake is put, and lifted once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER ledger_brake_only_lifted BEFORE UPDATE ON ledger_brake
    FOR EACH ROW EXECUTE FUNCTION ledger_brake_is_only_lifted();
CREATE OR REPLACE TRIGGER ledger_brake_append_only BEFORE DELETE ON ledger_brake
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER ledger_brake_no_truncate BEFORE TRUNCATE ON ledger_brake
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
