/*-------------------------------------------------------------------------
 *
 * tokens.c
 *		Fuzz target: the setting fencing.tokens and what present writes into it.
 *
 * Input: a token (8 bytes), a name up to a newline, and the setting's value.
 * A value that is accepted is listed; then one more token is presented, which
 * writes the setting anew.  The list must then be the one before with that
 * one token put in: what is written is read back, whatever the names are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/execnodes.h"

#include "fuzz.h"
#include "resource.h"
#include "tokens.h"

extern Datum fencing_presented(PG_FUNCTION_ARGS);

typedef struct Listed
{
	char *name;
	int len;
	int64 token;
} Listed;

/* What fencing.presented() puts out; checks what is true of every list. */
static Listed *
list(int *count)
{
	ReturnSetInfo rsinfo = {0};
	LOCAL_FCINFO(fcinfo, 0);
	Listed *result;

	memset(fcinfo, 0, SizeForFunctionCallInfo(0));
	fcinfo->resultinfo = (fmNodePtr) &rsinfo;
	fuzz_rows_clear();
	fencing_presented(fcinfo);
	fuzz_check(fuzz_nrows == fencing_tokens_count);
	result = palloc(fuzz_nrows * sizeof(Listed));
	for (int i = 0; i < fuzz_nrows; i++)
	{
		text *name = (text *) DatumGetPointer(fuzz_rows[i].values[0]);

		result[i].name = VARDATA(name);
		result[i].len = VARSIZE(name) - VARHDRSZ;
		result[i].token = DatumGetInt64(fuzz_rows[i].values[1]);
		fuzz_check(result[i].len >= 1 &&
				   result[i].len <= FENCING_RESOURCE_MAX);
		fuzz_check(memchr(result[i].name, '\0', result[i].len) == NULL);
		fuzz_check(result[i].token >= 1);
		fuzz_check(i == 0 ||
				   fencing_name_cmp(result[i - 1].name, result[i - 1].len,
									result[i].name, result[i].len) < 0);
		fuzz_check(fencing_token_for(result[i].name, result[i].len) ==
				   result[i].token);
		for (int len = 0; len <= result[i].len; len += len + 1)
			fuzz_check(fencing_tokens_with_prefix(result[i].name, len));
	}
	*count = fuzz_nrows;
	return result;
}

static bool
same(const Listed *a, const char *name, int len, int64 token)
{
	return a->len == len && memcmp(a->name, name, len) == 0 &&
		a->token == token;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool defined = false;
	Input in = fuzz_begin(data, size);
	TokenArg arg;
	Listed *before;
	Listed *after;
	int nbefore;
	int nafter;
	int n = 0;
	int64 had;
	char *name;
	char *value;
	uint64 generation;

	if (!defined)
		fencing_tokens_init();
	defined = true;
	fuzz_check(fuzz_setting_set(""));
	fuzz_check(fencing_tokens_count == 0);

	arg.token = fuzz_uint64(&in) & PG_INT64_MAX;
	name = fuzz_line(&in);
	value = fuzz_rest(&in);
	generation = fencing_tokens_generation;
	if (!fuzz_setting_set(value))
	{
		/* all or nothing */
		fuzz_check(fencing_tokens_count == 0);
		return 0;
	}
	fuzz_check(fencing_tokens_generation != generation);
	before = list(&nbefore);
	if (arg.token == 0 || *name == '\0' || strlen(name) > FENCING_RESOURCE_MAX)
		return 0;

	arg.name.len = strlen(name);
	memcpy(arg.name.data, name, arg.name.len + 1);
	had = fencing_token_for(name, arg.name.len);
	if (had == 0)
		for (int i = 0; i < nbefore; i++)
			fuzz_check(!same(&before[i], name, arg.name.len, before[i].token));
	fencing_present(&arg, 1);

	after = list(&nafter);
	fuzz_check(nafter == nbefore + (had == 0));
	fuzz_check(fencing_token_for(name, arg.name.len) == arg.token);
	for (int i = 0; i < nafter; i++)
	{
		if (same(&after[i], name, arg.name.len, arg.token))
		{
			if (had != 0)
				n++;
			continue;
		}
		fuzz_check(
			same(&before[n], after[i].name, after[i].len, after[i].token));
		n++;
	}
	fuzz_check(n == nbefore);

	/* as pg_dump or a user would copy it */
	value = pstrdup(fuzz_setting_value());
	fuzz_check(fuzz_setting_set(value));
	fuzz_check(fencing_tokens_count == nafter);
	return 0;
}
