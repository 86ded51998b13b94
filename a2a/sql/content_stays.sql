-- A question is never asked otherwise, and an answer never another, until retention empties both.
CREATE FUNCTION a2a_question_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.text, NEW.form, NEW.evidence, NEW.task_id) IS DISTINCT FROM
            (OLD.text, OLD.form, OLD.evidence, OLD.task_id)
        OR OLD.state = 'answered' AND (NEW.state, NEW.answer, NEW.answered_by, NEW.answered_by_name,
            NEW.answered_via) IS DISTINCT FROM (OLD.state, OLD.answer, OLD.answered_by,
            OLD.answered_by_name, OLD.answered_via)
    THEN
        IF (NEW.text, NEW.form, NEW.evidence, NEW.answer, NEW.task_id, NEW.state, NEW.answered_by,
                NEW.answered_by_name, NEW.answered_via) IS DISTINCT FROM
                ('', '{}'::jsonb, '[]'::jsonb, NULL::jsonb, OLD.task_id, OLD.state,
                OLD.answered_by, OLD.answered_by_name, OLD.answered_via)
            OR NOT EXISTS (
                SELECT FROM ledger_event erasure
                WHERE erasure.subject = OLD.task_id AND erasure.kind = 'task_content_erased')
        THEN
            RAISE EXCEPTION 'UPDATE on a2a_question is refused: what was asked and answered stays'
                USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a2a_question_stays BEFORE UPDATE ON a2a_question
    FOR EACH ROW EXECUTE FUNCTION a2a_question_stays();

-- The input of a task, and the result of one that has ended, stay until retention empties them.
CREATE FUNCTION a2a_task_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.input IS DISTINCT FROM OLD.input
            OR OLD.ended_at IS NOT NULL AND NEW.result IS DISTINCT FROM OLD.result)
        AND (NEW.content_erased_at IS NULL OR NEW.input IS NOT NULL OR NEW.result IS NOT NULL)
    THEN
        RAISE EXCEPTION 'UPDATE on a2a_task is refused: input and result stay'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a2a_task_stays BEFORE UPDATE ON a2a_task
    FOR EACH ROW EXECUTE FUNCTION a2a_task_stays();
