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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "command.h"
#include "scripts.h"

#define WORD_OVERHEAD 24 /* bytes of a word besides itself, at most */

static const char *const sources[SCRIPTS] = {
	[SCRIPT_ACQUIRE] = ACQUIRE_SOURCE,
	[SCRIPT_RENEW] = RENEW_SOURCE,
	[SCRIPT_RELEASE] = RELEASE_SOURCE,
	[SCRIPT_RAISE] = RAISE_SOURCE,
};

static const char *script_hash(Script script);
static void append_length(StringInfo data, char kind, int32 length);
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
		size_t size = strlen(text) + (size_t) (nargs + 4) * WORD_OVERHEAD;

		for (int j = 0; j < nargs; j++)
			size += args[j].len;
		data.data = palloc(size);
		data.maxlen = (int) size;
		resetStringInfo(&data);
		append_count(&data, nargs + 3);
		append_word(&data, in_full ? "EVAL" : "EVALSHA", in_full ? 4 : 7);
		append_word(&data, text, strlen(text));
		append_word(&data, number, pg_ltoa(nkeys, number));
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
		hex_encode((const char *) digest, sizeof(digest), hash);
	}
	return hash;
}

static void
append_length(StringInfo data, char kind, int32 length)
{
	char text[16];
	int n = 0;

	text[n++] = kind;
	n += pg_ltoa(length, text + n);
	text[n++] = '\r';
	text[n++] = '\n';
	appendBinaryStringInfo(data, text, n);
}

static void
append_count(StringInfo data, int count)
{
	append_length(data, '*', count);
}

static void
append_word(StringInfo data, const char *word, size_t len)
{
	append_length(data, '$', (int32) len);
	appendBinaryStringInfo(data, word, (int) len);
	appendBinaryStringInfo(data, "\r\n", 2);
}

static Bytes
finished(StringInfo data)
{
	Bytes bytes = {data->data, data->len};

	return bytes;
}
