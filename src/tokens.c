/*-------------------------------------------------------------------------
 *
 * tokens.c
 *		Tokens that the current transaction presents.
 *
 * The tokens live in a setting, fencing.tokens, and nowhere else: its value
 * is the truth and the check hook keeps a parsed form beside it.  So scope,
 * savepoints, SET clauses of functions, ALTER ROLE and connection options do
 * for tokens what they do for any setting, and fencing.present() is no more
 * than a SET LOCAL that adds to what is there.
 *
 *		fencing.tokens = 'sku:42=34, "a name, with = signs"=7'
 *
 * The parsed form is one block, since a GUC's "extra" is freed by guc.c with a
 * single free(): a header, the entries sorted by name, the bytes of the names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "deadline.h"
#include "refuse.h"
#include "tokens.h"

typedef struct PresentedToken
{
	int64 token;
	uint32 offset; /* of the name's bytes from the block's begin */
	uint32 len;
} PresentedToken;

typedef struct PresentedTokens
{
	int count;
	PresentedToken entries[FLEXIBLE_ARRAY_MEMBER];
} PresentedTokens;

/* The setting and its parsed form (NULL: nothing presented). */
static char *tokens_setting = NULL;
static PresentedTokens *presented = NULL;

uint64 fencing_tokens_generation = 1;
int fencing_tokens_count = 0;

FENCING_FUNCTION(fencing_present_one);
FENCING_FUNCTION(fencing_present_many);
FENCING_FUNCTION(fencing_presented);

static bool check_tokens(char **newval, void **extra, GucSource source);
static void assign_tokens(const char *newval, void *extra);
static bool read_item(const char **p, char *name, uint32 *len, int64 *token);
static const char *skip_space(const char *p);
static int entry_cmp(const void *a, const void *b, void *block);
static int token_arg_cmp(const void *a, const void *b);
static void append_item(StringInfo buf, const char *name, int len,
						int64 token);

/* White space and digits of the setting's syntax, whatever the locale. */
static inline bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline const char *
entry_name(const PresentedTokens *block, const PresentedToken *entry)
{
	return (const char *) block + entry->offset;
}

void
fencing_tokens_init(void)
{
	DefineCustomStringVariable("fencing.tokens",
							   "Tokens that the current transaction presents to fenced tables.",
							   "List of resource=token, separated by commas.",
							   &tokens_setting, "", PGC_USERSET, 0,
							   check_tokens, assign_tokens, NULL);
}

/* The first entry whose name is not below the given one. */
static int
lower_bound(const char *name, int len)
{
	int low = 0;
	int high = presented->count;

	while (low < high)
	{
		int mid = low + (high - low) / 2;
		const PresentedToken *entry = &presented->entries[mid];

		if (fencing_name_cmp(entry_name(presented, entry), entry->len, name,
							 len) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int64
fencing_token_for(const char *name, int len)
{
	const PresentedToken *entry;
	int at;

	if (presented == NULL)
		return 0;
	at = lower_bound(name, len);
	if (at == presented->count)
		return 0;
	entry = &presented->entries[at];
	if (entry->len != (uint32) len ||
		memcmp(entry_name(presented, entry), name, len) != 0)
		return 0;
	return entry->token;
}

bool
fencing_tokens_with_prefix(const char *prefix, int len)
{
	const PresentedToken *entry;
	int at;

	if (presented == NULL)
		return false;
	at = lower_bound(prefix, len);
	if (at == presented->count)
		return false;
	entry = &presented->entries[at];
	return entry->len >= (uint32) len &&
		memcmp(entry_name(presented, entry), prefix, len) == 0;
}

/*
 * Check hook: parses the whole value before any of it counts.  Raises
 * nothing; a false return makes guc.c raise 22023 (or, for a placeholder set
 * before the library was loaded, warn and drop the value).
 */
static bool
check_tokens(char **newval, void **extra, GucSource source)
{
	const char *p;
	char name[FENCING_RESOURCE_MAX + 1];
	uint32 len;
	int64 token;
	int count = 0;
	int unique = 0;
	size_t bytes = 0;
	char *at;
	PresentedTokens *block;

	p = skip_space(*newval);
	if (*p == '\0')
		return true;

	/* first pass: is it well formed, and how large will it be? */
	for (;;)
	{
		if (!read_item(&p, name, &len, &token))
			return false;
		count++;
		bytes += len;
		p = skip_space(p);
		if (*p == '\0')
			break;
		if (*p != ',')
		{
			GUC_check_errdetail("There is no comma after the token of resource \"%s\".",
								name);
			return false;
		}
		p = skip_space(p + 1);
	}

	/* second pass: build it */
	block = fencing_guc_malloc(LOG,
							   offsetof(PresentedTokens, entries) +
								   count * sizeof(PresentedToken) + bytes);
	if (block == NULL)
		return false;
	at = (char *) &block->entries[count];
	p = skip_space(*newval);
	for (int i = 0; i < count; i++)
	{
		PresentedToken *entry = &block->entries[i];

		if (!read_item(&p, name, &len, &token))
			pg_unreachable();
		entry->token = token;
		entry->offset = at - (char *) block;
		entry->len = len;
		memcpy(at, name, len);
		at += len;
		p = skip_space(p);
		if (*p == ',')
			p = skip_space(p + 1);
	}
	qsort_arg(block->entries, count, sizeof(PresentedToken), entry_cmp, block);

	/* one entry for each name; two tokens for one name mean nothing */
	for (int i = 0; i < count; i++)
	{
		PresentedToken *entry = &block->entries[i];
		PresentedToken *last = &block->entries[unique - 1];

		if (unique > 0 && last->len == entry->len &&
			memcmp(entry_name(block, last), entry_name(block, entry),
				   entry->len) == 0)
		{
			if (last->token == entry->token)
				continue;
			GUC_check_errdetail("Resource \"%.*s\" has two different tokens, " INT64_FORMAT
								" and " INT64_FORMAT ".",
								(int) entry->len, entry_name(block, entry),
								last->token, entry->token);
			fencing_guc_free(block);
			return false;
		}
		block->entries[unique++] = *entry;
	}
	block->count = unique;
	*extra = block;
	return true;
}

static void
assign_tokens(const char *newval, void *extra)
{
	presented = extra;
	fencing_tokens_count = presented ? presented->count : 0;
	fencing_tokens_generation++;
}

/*
 * Reads one "resource=token" at *p, which is moved behind it.  On failure
 * leaves a detail for the user and returns false.
 */
static bool
read_item(const char **p, char *name, uint32 *len, int64 *token)
{
	const char *s = *p;
	uint32 n = 0;
	uint64 value = 0;

	if (*s == '"')
	{
		for (s++;; s++)
		{
			if (*s == '\0')
			{
				GUC_check_errdetail("A quoted resource name is not closed.");
				return false;
			}
			if (*s == '"' && *++s != '"')
				break;
			if (n < FENCING_RESOURCE_MAX)
				name[n] = *s;
			n++;
		}
	}
	else
	{
		for (; *s != '\0' && *s != ',' && *s != '=' && *s != '"' &&
			 !is_space(*s);
			 s++)
		{
			if (n < FENCING_RESOURCE_MAX)
				name[n] = *s;
			n++;
		}
	}
	if (n > FENCING_RESOURCE_MAX)
	{
		GUC_check_errdetail("A resource name has more than %d bytes.",
							FENCING_RESOURCE_MAX);
		return false;
	}
	if (n == 0)
	{
		GUC_check_errdetail("A resource name is empty.");
		return false;
	}
	name[n] = '\0';
	*len = n;

	s = skip_space(s);
	if (*s != '=')
	{
		GUC_check_errdetail("There is no \"=\" after resource \"%s\".", name);
		GUC_check_errhint(
			"Names with a comma, an equals sign, a double quote or white space are double-quoted.");
		return false;
	}
	s = skip_space(s + 1);
	if (!is_digit(*s))
	{
		GUC_check_errdetail("The token of resource \"%s\" is not a number from 1.",
							name);
		return false;
	}
	for (; is_digit(*s); s++)
	{
		int digit = *s - '0';

		if (value > (uint64) (PG_INT64_MAX - digit) / 10)
		{
			GUC_check_errdetail("The token of resource \"%s\" is out of range for type bigint.",
								name);
			return false;
		}
		value = value * 10 + digit;
	}
	if (value == 0)
	{
		GUC_check_errdetail("The token of resource \"%s\" is not a number from 1.",
							name);
		return false;
	}
	*token = value;
	*p = s;
	return true;
}

static const char *
skip_space(const char *p)
{
	while (is_space(*p))
		p++;
	return p;
}

static int
entry_cmp(const void *a, const void *b, void *block)
{
	const PresentedToken *ea = a;
	const PresentedToken *eb = b;

	return fencing_name_cmp(entry_name(block, ea), ea->len,
							entry_name(block, eb), eb->len);
}

static int
token_arg_cmp(const void *a, const void *b)
{
	const TokenArg *ta = a;
	const TokenArg *tb = b;

	return fencing_name_cmp(ta->name.data, ta->name.len, tb->name.data,
							tb->name.len);
}

int64
fencing_token_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 token;

	if (PG_ARGISNULL(argno))
		fencing_bad_argument("token", "NULL", "Tokens begin at 1.");
	token = PG_GETARG_INT64(argno);
	if (token < 1)
		fencing_bad_token(token);
	return token;
}

TokenArg *
fencing_token_args(FunctionCallInfo fcinfo, bool arrays, int *count)
{
	TokenArg *args;
	Datum *names, *tokens;
	bool *null_names, *null_tokens;
	int nnames, ntokens, n = 0;

	if (!arrays)
	{
		args = palloc(sizeof(TokenArg));
		fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0
												  : PG_GETARG_DATUM(0),
								  PG_ARGISNULL(0), "resource", &args->name);
		args->token = fencing_token_arg(fcinfo, 1);
		*count = 1;
		return args;
	}

	if (PG_ARGISNULL(0))
		fencing_bad_argument("resources", "NULL",
							 "Give an array of resource names.");
	if (PG_ARGISNULL(1))
		fencing_bad_argument("tokens", "NULL", "Give an array of tokens.");
	if (ARR_NDIM(PG_GETARG_ARRAYTYPE_P(0)) > 1)
		fencing_bad_argument("resources", "not one-dimensional",
							 "Give a plain array of resource names.");
	if (ARR_NDIM(PG_GETARG_ARRAYTYPE_P(1)) > 1)
		fencing_bad_argument("tokens", "not one-dimensional",
							 "Give a plain array of tokens.");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false,
					  TYPALIGN_INT, &names, &null_names, &nnames);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT8OID, sizeof(int64),
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &tokens, &null_tokens,
					  &ntokens);
	if (nnames != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg(
					 "arguments \"resources\" and \"tokens\" differ in length"),
				 errdetail("There are %d resources and %d tokens.", nnames,
						   ntokens),
				 errhint("Give one token for each resource.")));

	args = palloc_extended(Max(nnames, 1) * sizeof(TokenArg), MCXT_ALLOC_HUGE);
	for (int i = 0; i < nnames; i++)
	{
		fencing_resource_from_arg(names[i], null_names[i],
								  "an element of resources", &args[i].name);
		if (null_tokens[i])
			fencing_bad_argument("an element of tokens", "NULL",
								 "Tokens begin at 1.");
		args[i].token = DatumGetInt64(tokens[i]);
		if (args[i].token < 1)
			fencing_bad_token(args[i].token);
	}

	qsort(args, nnames, sizeof(TokenArg), token_arg_cmp);
	for (int i = 0; i < nnames; i++)
	{
		if (n > 0 && token_arg_cmp(&args[n - 1], &args[i]) == 0)
		{
			if (args[n - 1].token != args[i].token)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("resource \"%s\" is given two different tokens",
								args[i].name.data),
						 errdetail("Resource \"%s\": tokens " INT64_FORMAT
								   " and " INT64_FORMAT ".",
								   args[i].name.data, args[n - 1].token,
								   args[i].token),
						 errhint("Present the newest token alone.")));
			continue;
		}
		if (n != i)
			args[n] = args[i];
		n++;
	}
	*count = n;
	return args;
}

/*
 * What is presented already and what is added are both sorted, so the new
 * value is a merge of the two; an added token replaces one of the same name.
 */
void
fencing_present(const TokenArg *args, int count)
{
	StringInfoData buf;
	int old = 0;
	int nold = fencing_tokens_count;

	if (count == 0)
		return;

	initStringInfo(&buf);
	for (int i = 0; i < count || old < nold;)
	{
		const PresentedToken *entry = old < nold ? &presented->entries[old]
												 : NULL;
		int c;

		if (entry == NULL)
			c = 1;
		else if (i == count)
			c = -1;
		else
			c = fencing_name_cmp(entry_name(presented, entry), entry->len,
								 args[i].name.data, args[i].name.len);
		if (c < 0)
			append_item(&buf, entry_name(presented, entry), entry->len,
						entry->token);
		else
		{
			append_item(&buf, args[i].name.data, args[i].name.len,
						args[i].token);
			i++;
		}
		if (c <= 0)
			old++;
	}
	(void) set_config_option("fencing.tokens", buf.data, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	pfree(buf.data);
}

/* One "resource=token", the name quoted where the setting's syntax needs it */
static void
append_item(StringInfo buf, const char *name, int len, int64 token)
{
	bool quote = false;

	if (buf->len > 0)
		appendStringInfoString(buf, ", ");
	for (int i = 0; i < len && !quote; i++)
		quote = name[i] == ',' || name[i] == '=' || name[i] == '"' ||
			is_space(name[i]);
	if (!quote)
		appendBinaryStringInfo(buf, name, len);
	else
	{
		appendStringInfoChar(buf, '"');
		for (int i = 0; i < len; i++)
		{
			if (name[i] == '"')
				appendStringInfoChar(buf, '"');
			appendStringInfoChar(buf, name[i]);
		}
		appendStringInfoChar(buf, '"');
	}
	appendStringInfo(buf, "=" INT64_FORMAT, token);
}

/* fencing.present(resource, token, deadline) */
Datum
fencing_present_one(PG_FUNCTION_ARGS)
{
	int count;
	TokenArg *args = fencing_token_args(fcinfo, false, &count);

	/* the deadline first: if it is refused, nothing has changed */
	fencing_deadline_arg(fcinfo, 2);
	fencing_present(args, count);
	PG_RETURN_VOID();
}

/* fencing.present(resources, tokens, deadline) */
Datum
fencing_present_many(PG_FUNCTION_ARGS)
{
	int count;
	TokenArg *args = fencing_token_args(fcinfo, true, &count);

	/* the deadline first: if it is refused, nothing has changed */
	fencing_deadline_arg(fcinfo, 2);
	fencing_present(args, count);
	PG_RETURN_VOID();
}

/* fencing.presented() */
Datum
fencing_presented(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < fencing_tokens_count; i++)
	{
		const PresentedToken *entry = &presented->entries[i];
		Datum values[2];
		bool nulls[2] = {false, false};

		values[0] = PointerGetDatum(
			cstring_to_text_with_len(entry_name(presented, entry),
									 entry->len));
		values[1] = Int64GetDatum(entry->token);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}
