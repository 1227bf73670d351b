/*-------------------------------------------------------------------------
 *
 * command.c
 *		Commands as bytes, and the scripts.
 *
 * A command is an array of strings with their lengths, so whatever bytes a
 * name consists of, they are that name and nothing else.
 *
 * A script is called by its hash.  A server that does not know it (restarted,
 * failed over, SCRIPT FLUSH) says NOSCRIPT and is sent the whole text, which
 * it remembers from then on.  Where nobody waits for the reply, the text is
 * sent at once.
 *
 * The scripts run in Redis 5 and later, and Valkey.  Numbers that may be large
 * are strings all the way: a number of Lua is a double.  Every command that
 * can fail is called by pcall, because the error of a plain call reaches the
 * client with other words around it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "utils/memutils.h"

#include "command.h"

/*
 * What of a name's counter is above the token, that name has been granted to
 * somebody later.  Both are decimal; a counter that somebody set below zero
 * is below every token.
 */
#define COUNTER_ABOVE                                                         \
	"local function above(counter, token) "                                   \
	"if type(counter) ~= 'string' or counter:sub(1, 1) == '-' then "          \
	"return false end "                                                       \
	"return #counter > #token or (#counter == #token and counter > token) "   \
	"end "

static const char *const sources[SCRIPTS] = {
	/*
	 * The lock first, since that is what can be busy.  If the counter then
	 * cannot be incremented, the lock is taken back.
	 */
	[SCRIPT_ACQUIRE] =
		"local held = redis.pcall('GET', KEYS[1]) "
		"if type(held) == 'table' then return held end "
		"if held == ARGV[1] then "
		"local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2]) "
		"if type(set) == 'table' then return set end "
		"local counter = redis.pcall('GET', KEYS[2]) "
		"if type(counter) == 'table' then return counter end "
		"return {2, counter or '0'} end "
		"if held then return {0, redis.call('PTTL', KEYS[1])} end "
		"local set = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) "
		"if not set then return {0, -1} end "
		"if set.err then return set end "
		"local counter = redis.pcall('INCR', KEYS[2]) "
		"if type(counter) == 'table' then "
		"redis.call('DEL', KEYS[1]) return counter end "
		"return {1, redis.call('GET', KEYS[2])}",

	[SCRIPT_RENEW] = COUNTER_ABOVE
	"local held = redis.pcall('GET', KEYS[1]) "
	"if type(held) == 'table' then return held end "
	"if held ~= ARGV[1] then return 0 end "
	"if above(redis.pcall('GET', KEYS[2]), ARGV[2]) then return 0 end "
	"return redis.pcall('PEXPIRE', KEYS[1], ARGV[3])",

	/*
	 * Those who wait are told, on the channel that has the key's name, how
	 * many they are.  Not being allowed to do that is no reason to fail.
	 */
	[SCRIPT_RELEASE] = COUNTER_ABOVE
	"local held = redis.pcall('GET', KEYS[1]) "
	"if type(held) == 'table' then return held end "
	"if held ~= ARGV[1] then return 0 end "
	"if ARGV[2] ~= '' and "
	"above(redis.pcall('GET', KEYS[2]), ARGV[2]) then return 0 end "
	"local gone = redis.pcall('DEL', KEYS[1]) "
	"if type(gone) == 'table' then return gone end "
	"local waiting = redis.pcall('PUBSUB', 'NUMSUB', KEYS[1]) "
	"redis.pcall('PUBLISH', KEYS[1], "
	"waiting.err and '1' or tostring(waiting[2])) "
	"return gone",

	[SCRIPT_RAISE] = COUNTER_ABOVE
	"local counter = redis.pcall('GET', KEYS[1]) "
	"if type(counter) == 'table' then return counter end "
	"if counter ~= ARGV[1] and not above(counter, ARGV[1]) then "
	"return redis.pcall('SET', KEYS[1], ARGV[1]) end "
	"return 0",
};

static const char *script_hash(Script script);
static void append_count(StringInfo data, int count);
static void append_word(StringInfo data, const char *word, size_t len);
static Bytes finished(StringInfo data);

Bytes
bytes_of(const char *text)
{
	Bytes bytes = {text, strlen(text)};

	return bytes;
}

void
command_append(StringInfo data, int nwords, ...)
{
	va_list words;

	append_count(data, nwords);
	va_start(words, nwords);
	while (nwords-- > 0)
	{
		const char *word = va_arg(words, const char *);

		append_word(data, word, strlen(word));
	}
	va_end(words);
}

Command
command_words(int nwords, ...)
{
	Command command = {0};
	StringInfoData data;
	va_list words;

	initStringInfo(&data);
	append_count(&data, nwords);
	va_start(words, nwords);
	while (nwords-- > 0)
	{
		const char *word = va_arg(words, const char *);

		append_word(&data, word, strlen(word));
	}
	va_end(words);
	command.bytes = finished(&data);
	return command;
}

Command
command_script(Script script, int nkeys, int nargs, const Bytes *args)
{
	Command command;
	Bytes *forms[] = {&command.bytes, &command.in_full};

	for (size_t i = 0; i < lengthof(forms); i++)
	{
		bool in_full = forms[i] == &command.in_full;
		const char *text = in_full ? sources[script] : script_hash(script);
		StringInfoData data;
		char number[16];

		initStringInfo(&data);
		append_count(&data, nargs + 3);
		append_word(&data, in_full ? "EVAL" : "EVALSHA", in_full ? 4 : 7);
		append_word(&data, text, strlen(text));
		append_word(&data, number,
					snprintf(number, sizeof(number), "%d", nkeys));
		for (int j = 0; j < nargs; j++)
			append_word(&data, args[j].data, args[j].len);
		*forms[i] = finished(&data);
	}
	return command;
}

static const char *
script_hash(Script script)
{
	static char hashes[SCRIPTS][2 * SHA1_DIGEST_LENGTH + 1];
	char *hash = hashes[script];

	if (*hash == '\0')
	{
		uint8 digest[SHA1_DIGEST_LENGTH];
		pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA1);

		if (context == NULL || pg_cryptohash_init(context) < 0 ||
			pg_cryptohash_update(context, (const uint8 *) sources[script],
								 strlen(sources[script])) < 0 ||
			pg_cryptohash_final(context, digest, sizeof(digest)) < 0)
			elog(ERROR, "could not compute a hash");
		pg_cryptohash_free(context);
		for (int i = 0; i < SHA1_DIGEST_LENGTH; i++)
			snprintf(hash + 2 * i, 3, "%02x", digest[i]);
	}
	return hash;
}

static void
append_count(StringInfo data, int count)
{
	appendStringInfo(data, "*%d\r\n", count);
}

static void
append_word(StringInfo data, const char *word, size_t len)
{
	appendStringInfo(data, "$%zu\r\n", len);
	appendBinaryStringInfo(data, word, (int) len);
	appendStringInfoString(data, "\r\n");
}

static Bytes
finished(StringInfo data)
{
	Bytes bytes = {data->data, data->len};

	return bytes;
}
