/*-------------------------------------------------------------------------
 *
 * scripts.h
 *		The scripts that run in Redis.
 *
 * They run in Redis 5 and later, and in Valkey.  Numbers that may be large are
 * strings all the way: a number of Lua is a double.  Every command that can
 * fail is called by pcall, because the error of a plain call reaches the
 * client with other words around it.
 *
 * Nothing but strings is here, so that the benchmark can measure the same
 * scripts without us.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_SCRIPTS_H
#define FENCING_REDIS_SCRIPTS_H

/*
 * Has the name been granted to somebody later than with this token?  Both are
 * decimal; a counter that somebody set below zero is below every token.
 */
#define COUNTER_ABOVE                                                         \
	"local function above(counter, token) "                                   \
	"if type(counter) ~= 'string' or counter:sub(1, 1) == '-' then "          \
	"return false end "                                                       \
	"return #counter > #token or (#counter == #token and counter > token) "   \
	"end "

/*
 * KEYS: lock, counter.  ARGV: holder, ttl in ms.  Returns {0, ms left} when it
 * is busy, {1, counter} when it is granted, {2, counter} when the holder had it
 * already.
 *
 * The lock first, since that is what can be busy.  If the counter then cannot
 * be incremented, the lock is taken back.
 */
#define ACQUIRE_SOURCE                                                        \
	"local held = redis.pcall('GET', KEYS[1]) "                               \
	"if type(held) == 'table' then return held end "                          \
	"if held == ARGV[1] then "                                                \
	"local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2]) "                   \
	"if type(set) == 'table' then return set end "                            \
	"local counter = redis.pcall('GET', KEYS[2]) "                            \
	"if type(counter) == 'table' then return counter end "                    \
	"return {2, counter or '0'} end "                                         \
	"if held then return {0, redis.call('PTTL', KEYS[1])} end "               \
	"local set = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) "  \
	"if not set then return {0, -1} end "                                     \
	"if set.err then return set end "                                         \
	"local counter = redis.pcall('INCR', KEYS[2]) "                           \
	"if type(counter) == 'table' then "                                       \
	"redis.call('DEL', KEYS[1]) return counter end "                          \
	"return {1, redis.call('GET', KEYS[2])}"

/* KEYS: lock, counter.  ARGV: holder, token, ttl in ms.  Returns 1 or 0. */
#define RENEW_SOURCE                                                          \
	COUNTER_ABOVE                                                             \
	"local held = redis.pcall('GET', KEYS[1]) "                               \
	"if type(held) == 'table' then return held end "                          \
	"if held ~= ARGV[1] then return 0 end "                                   \
	"if above(redis.pcall('GET', KEYS[2]), ARGV[2]) then return 0 end "       \
	"return redis.pcall('PEXPIRE', KEYS[1], ARGV[3])"

/*
 * KEYS: lock, counter.  ARGV: holder, token or ''.  Returns 1 or 0.
 *
 * Those who wait are told, on the channel that has the lock's name, how many
 * they are.  Not being allowed to do that is no reason to fail.
 */
#define RELEASE_SOURCE                                                        \
	COUNTER_ABOVE                                                             \
	"local held = redis.pcall('GET', KEYS[1]) "                               \
	"if type(held) == 'table' then return held end "                          \
	"if held ~= ARGV[1] then return 0 end "                                   \
	"if ARGV[2] ~= '' and "                                                   \
	"above(redis.pcall('GET', KEYS[2]), ARGV[2]) then return 0 end "          \
	"local gone = redis.pcall('DEL', KEYS[1]) "                               \
	"if type(gone) == 'table' then return gone end "                          \
	"local waiting = redis.pcall('PUBSUB', 'NUMSUB', KEYS[1]) "               \
	"redis.pcall('PUBLISH', KEYS[1], "                                        \
	"waiting.err and '1' or tostring(waiting[2])) "                           \
	"return gone"

/* KEYS: counter.  ARGV: token.  Raises the counter to the token. */
#define RAISE_SOURCE                                                          \
	COUNTER_ABOVE                                                             \
	"local counter = redis.pcall('GET', KEYS[1]) "                            \
	"if type(counter) == 'table' then return counter end "                    \
	"if counter ~= ARGV[1] and not above(counter, ARGV[1]) then "             \
	"return redis.pcall('SET', KEYS[1], ARGV[1]) end "                        \
	"return 0"

#endif /* FENCING_REDIS_SCRIPTS_H */
