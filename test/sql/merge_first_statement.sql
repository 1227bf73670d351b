-- A MERGE clause without the token column carries no token, also in the first
-- statement of a session, which loads the library, and inside a procedure.
CREATE TABLE item (id int PRIMARY KEY, v text);
SELECT fencing.fence('item');
INSERT INTO item VALUES (1, 'a', 11);
\c -
DO $$
BEGIN
	MERGE INTO item USING (VALUES (1)) AS s (id) ON s.id = item.id
		WHEN MATCHED AND s.id = 1 THEN UPDATE SET v = 'stale'
		WHEN MATCHED THEN UPDATE SET v = 'b', fence_token = 11;
EXCEPTION WHEN SQLSTATE 'ZF002' THEN
	RAISE NOTICE 'refused with %', SQLSTATE;
END
$$;
\c -
-- an update with the current token is the holder's, in such a statement too
DO $$BEGIN UPDATE item SET v = 'c', fence_token = 11; END$$;
SELECT * FROM item;
DROP TABLE item;
