-- True if a member of these groups can fill a seat of a transaction by now: one of their own group,
-- of anybody, or one whose terms let others sign after it has waited so long. Time in which a brake
-- stopped it does not count. `open_seats` is null where no group has to sign.
CREATE OR REPLACE FUNCTION ledger_can_fill_a_seat(
    own varchar[], open_seats varchar[], terms jsonb,
    of_tenant text, of_agent text, of_tool text, since timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT open_seats IS NULL OR '' = ANY(open_seats) OR open_seats && own OR EXISTS (
        SELECT FROM jsonb_each(terms -> 'widen') AS seat (of_group, others),
            jsonb_each_text(seat.others) AS other (of_group, after_s)
        WHERE seat.of_group = ANY(open_seats)
            AND (other.of_group = 'approvers' OR other.of_group = ANY(own))
            AND since + other.after_s::float8 * interval '1 second'
                + ledger_time_stopped(of_tenant, of_agent, of_tool, since, clock_timestamp())
                <= clock_timestamp()
    )
$$;
