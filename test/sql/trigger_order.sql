--
-- A trigger that fires after the guard could change what it has checked: fence() says so
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER a_first BEFORE UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER zzzz_statement BEFORE UPDATE ON stock FOR EACH STATEMENT EXECUTE FUNCTION touch();
CREATE TRIGGER zzzz_after AFTER UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION touch();
-- none of these does
SELECT fencing.fence('stock');
-- one that does
CREATE TRIGGER zzzz_late BEFORE UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION touch();
SELECT fencing.fence('stock');
-- renamed, as the hint says
ALTER TRIGGER zzzz_late ON stock RENAME TO late;
SELECT fencing.fence('stock');
DROP TABLE stock;
DROP FUNCTION touch;
