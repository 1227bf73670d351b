/*-------------------------------------------------------------------------
 *
 * digest.c
 *		Fixed-length stand-ins for commands and their requests.
 *
 * A request is compared as jsonb, but only a digest of it is kept.  The text of
 * equal values may differ (1 and 1.0 are equal, and so are their keys in any
 * order), and jsonb's own hash function is of no use: it does not see where an
 * array ends, so [[1],2] and [[1,2]] have the same hash.  So the value is walked
 * and written down in a form that has one spelling only, each piece with its
 * length, and that is what SHA-256 gets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "port/pg_bswap.h"
#include "utils/numeric.h"

#include "digest.h"

static void
sha256(const char *data, size_t len, uint8 digest[PG_SHA256_DIGEST_LENGTH])
{
	pg_cryptohash_ctx *cxt = pg_cryptohash_create(PG_SHA256);

	if (cxt == NULL || pg_cryptohash_init(cxt) < 0 ||
		pg_cryptohash_update(cxt, (const uint8 *) data, len) < 0 ||
		pg_cryptohash_final(cxt, digest, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute a digest");
	pg_cryptohash_free(cxt);
}

/* A piece that cannot run into the next one. */
static void
append_piece(StringInfo buf, char kind, const char *data, int len)
{
	uint32 length = pg_hton32((uint32) len);

	appendStringInfoChar(buf, kind);
	appendBinaryStringInfo(buf, (const char *) &length, sizeof(length));
	appendBinaryStringInfo(buf, data, len);
}

void
fencing_command_id(const char *scope, int scope_len, const char *key,
				   int key_len, pg_uuid_t *id)
{
	uint8 digest[PG_SHA256_DIGEST_LENGTH];
	StringInfoData buf;

	initStringInfo(&buf);
	append_piece(&buf, 's', scope, scope_len);
	append_piece(&buf, 'k', key, key_len);
	sha256(buf.data, buf.len, digest);
	pfree(buf.data);

	/* marked as a UUID of a vendor's own making (version 8) */
	memcpy(id->data, digest, UUID_LEN);
	id->data[6] = (id->data[6] & 0x0F) | 0x80;
	id->data[8] = (id->data[8] & 0x3F) | 0x80;
}

static void
append_scalar(StringInfo buf, const JsonbValue *value)
{
	char *number;

	switch (value->type)
	{
		case jbvNull:
			append_piece(buf, 'z', "", 0);
			break;
		case jbvBool:
			append_piece(buf, value->val.boolean ? 't' : 'f', "", 0);
			break;
		case jbvString:
			append_piece(buf, 's', value->val.string.val,
						 value->val.string.len);
			break;
		case jbvNumeric:
			number = numeric_normalize(value->val.numeric);
			append_piece(buf, 'n', number, (int) strlen(number));
			pfree(number);
			break;
		default:
			elog(ERROR, "unexpected type %d of a jsonb scalar",
				 (int) value->type);
	}
}

void
fencing_request_digest(Jsonb *request, uint8 digest[REQUEST_DIGEST_LENGTH])
{
	JsonbIterator *iterator = JsonbIteratorInit(&request->root);
	JsonbIteratorToken token;
	JsonbValue value;
	StringInfoData buf;

	StaticAssertStmt(REQUEST_DIGEST_LENGTH == PG_SHA256_DIGEST_LENGTH,
					 "a request's digest is a SHA-256");
	initStringInfo(&buf);
	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE)
	{
		switch (token)
		{
			case WJB_BEGIN_ARRAY:
				append_piece(&buf, value.val.array.rawScalar ? '.' : '[', "",
							 0);
				break;
			case WJB_BEGIN_OBJECT:
				append_piece(&buf, '{', "", 0);
				break;
			case WJB_KEY:
				append_piece(&buf, 'k', value.val.string.val,
							 value.val.string.len);
				break;
			case WJB_ELEM:
			case WJB_VALUE:
				append_scalar(&buf, &value);
				break;
			case WJB_END_ARRAY:
				append_piece(&buf, ']', "", 0);
				break;
			case WJB_END_OBJECT:
				append_piece(&buf, '}', "", 0);
				break;
			default:
				break;
		}
	}
	sha256(buf.data, buf.len, digest);
	pfree(buf.data);
}
