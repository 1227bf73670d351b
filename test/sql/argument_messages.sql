--
-- What a user reads when an argument or a setting is refused
--
SELECT fencing.claim('order:1', 7);
SELECT fencing.present('', 1);
SELECT fencing.present('a', 0);
SELECT fencing.present(ARRAY['a', 'b'], ARRAY[1]);
SELECT fencing.present(ARRAY['a', 'a'], ARRAY[1, 2]);
SELECT fencing.set_mark('order:1', 8, 'raise it');
SELECT fencing.set_mark('order:2', 0, 'no such mark');
SELECT fencing.set_mark('order:1', 0, '');
SELECT fencing.compact(NULL);
SELECT fencing.compact('0');
SET fencing.tokens = 'a';
SET fencing.tokens = 'a=x';
SET fencing.tokens = 'a=1 b=2';
SET fencing.tokens = 'a=1, a=2';
SET fencing.deadline = 'tomorrow';
DELETE FROM fencing.marks;
