/*-------------------------------------------------------------------------
 *
 * stubs.c
 *		Stand-ins for the parts of the server that the fuzzed code calls.
 *
 * As little as there can be.  Memory is malloc's, one block for each request,
 * so that the address sanitizer sees the true end of each; what one input
 * allocated is freed when the next one begins.  ereport(ERROR) formats its
 * messages (a wrong argument shows there) and jumps to FUZZ_TRY.  A function
 * that is not here is left unresolved by the linker: a target that reaches it
 * crashes at once, and says so by that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "fuzz.h"

/* Types of arguments that became stricter. */
#if PG_VERSION_NUM >= 160000
#define BINARY_DATA const void *
#else
#define BINARY_DATA const char *
#endif
#if PG_VERSION_NUM >= 170000
#define PUT_VALUES const Datum *
#define PUT_NULLS const bool *
#else
#define PUT_VALUES Datum *
#define PUT_NULLS bool *
#endif

/* ---------------------------------------------------------------------------
 * Memory
 * ---------------------------------------------------------------------------
 */

/* In front of each block, which keeps it aligned. */
typedef struct Block
{
	struct Block *next;
	struct Block *prev;
	size_t size;
	size_t unused;
} Block;

static Block blocks = {&blocks, &blocks, 0, 0};

MemoryContext CurrentMemoryContext = NULL;
MemoryContext TopMemoryContext = NULL;
MemoryContext ErrorContext = NULL;

static void *
allocate(size_t size, bool zero)
{
	Block *block = malloc(sizeof(Block) + size);

	if (block == NULL)
		abort();
	block->size = size;
	block->prev = &blocks;
	block->next = blocks.next;
	block->next->prev = block;
	blocks.next = block;
	/* what palloc returns holds anything; a pattern makes its use visible */
	memset(block + 1, zero ? 0 : 0x7f, size);
	return block + 1;
}

static void
release(void *pointer)
{
	Block *block = (Block *) pointer - 1;

	block->prev->next = block->next;
	block->next->prev = block->prev;
	free(block);
}

void *
palloc(Size size)
{
	return allocate(size, false);
}

void *
palloc0(Size size)
{
	return allocate(size, true);
}

void *
palloc_extended(Size size, int flags)
{
	return allocate(size, (flags & MCXT_ALLOC_ZERO) != 0);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return allocate(size, false);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return allocate(size, true);
}

void *
repalloc(void *pointer, Size size)
{
	Block *block = (Block *) pointer - 1;
	void *result = allocate(size, false);

	memcpy(result, pointer, Min(size, block->size));
	release(pointer);
	return result;
}

void
pfree(void *pointer)
{
	release(pointer);
}

char *
pnstrdup(const char *in, Size len)
{
	size_t n = strnlen(in, len);
	char *result = palloc(n + 1);

	memcpy(result, in, n);
	result[n] = '\0';
	return result;
}

char *
pstrdup(const char *in)
{
	return pnstrdup(in, strlen(in));
}

#if PG_VERSION_NUM >= 160000
void *
guc_malloc(int elevel, size_t size)
{
	return malloc(size);
}

void
guc_free(void *pointer)
{
	free(pointer);
}
#endif

/* ---------------------------------------------------------------------------
 * Strings
 * ---------------------------------------------------------------------------
 */

char *
psprintf(const char *fmt, ...)
{
	va_list args;
	char *result;
	int len;

	va_start(args, fmt);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	fuzz_check(len >= 0);
	result = palloc(len + 1);
	va_start(args, fmt);
	vsnprintf(result, len + 1, fmt, args);
	va_end(args);
	return result;
}

void
initStringInfo(StringInfo str)
{
	str->maxlen = 16; /* less than the server's, to grow often */
	str->data = palloc(str->maxlen);
	resetStringInfo(str);
}

void
resetStringInfo(StringInfo str)
{
	str->data[0] = '\0';
	str->len = 0;
	str->cursor = 0;
}

void
enlargeStringInfo(StringInfo str, int needed)
{
	if (str->len + needed + 1 <= str->maxlen)
		return;
	str->maxlen = (str->len + needed + 1) * 2;
	str->data = repalloc(str->data, str->maxlen);
}

void
appendBinaryStringInfo(StringInfo str, BINARY_DATA data, int len)
{
	enlargeStringInfo(str, len);
	memcpy(str->data + str->len, data, len);
	str->len += len;
	str->data[str->len] = '\0';
}

void
appendStringInfoString(StringInfo str, const char *s)
{
	appendBinaryStringInfo(str, s, strlen(s));
}

void
appendStringInfoChar(StringInfo str, char c)
{
	appendBinaryStringInfo(str, &c, 1);
}

void
appendStringInfo(StringInfo str, const char *fmt, ...)
{
	char text[4096];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fuzz_check(len >= 0);
	if (len < (int) sizeof(text))
	{
		appendBinaryStringInfo(str, text, len);
		return;
	}
	enlargeStringInfo(str, len);
	va_start(args, fmt);
	vsnprintf(str->data + str->len, len + 1, fmt, args);
	va_end(args);
	str->len += len;
}

/* ---------------------------------------------------------------------------
 * Errors
 * ---------------------------------------------------------------------------
 */

jmp_buf fuzz_jump;
bool fuzz_guarded = false;
FuzzError fuzz_error;
static int level;

bool
errstart(int elevel, const char *domain)
{
	level = elevel;
	memset(&fuzz_error, 0, sizeof(fuzz_error));
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	if (level < ERROR)
		return;
	/* every error that can be reached by input has a code of its own */
	fuzz_check(fuzz_guarded && fuzz_error.sqlstate != 0);
	fuzz_guarded = false;
	longjmp(fuzz_jump, 1);
}

int
errcode(int sqlerrcode)
{
	fuzz_error.sqlstate = sqlerrcode;
	return 0;
}

#define FORMAT_INTO(field)                                                    \
	do                                                                        \
	{                                                                         \
		va_list args;                                                         \
                                                                              \
		va_start(args, fmt);                                                  \
		vsnprintf(field, sizeof(field), fmt, args);                           \
		va_end(args);                                                         \
	} while (0)

int
errmsg(const char *fmt, ...)
{
	FORMAT_INTO(fuzz_error.message);
	return 0;
}

int
errmsg_internal(const char *fmt, ...)
{
	FORMAT_INTO(fuzz_error.message);
	return 0;
}

int
errdetail(const char *fmt, ...)
{
	FORMAT_INTO(fuzz_error.detail);
	return 0;
}

int
errdetail_internal(const char *fmt, ...)
{
	FORMAT_INTO(fuzz_error.detail);
	return 0;
}

int
errhint(const char *fmt, ...)
{
	FORMAT_INTO(fuzz_error.hint);
	return 0;
}

/* ---------------------------------------------------------------------------
 * Settings
 * ---------------------------------------------------------------------------
 */

char *GUC_check_errmsg_string;
char *GUC_check_errdetail_string;
char *GUC_check_errhint_string;

const char *fuzz_setting_name;
static GucStringCheckHook check_hook;
static GucStringAssignHook assign_hook;
static char *setting_value;
static void *setting_extra;

void
pre_format_elog_string(int errnumber, const char *domain)
{
}

char *
format_elog_string(const char *fmt, ...)
{
	char text[8192];

	FORMAT_INTO(text);
	return pstrdup(text);
}

void
DefineCustomStringVariable(const char *name, const char *short_desc,
						   const char *long_desc, char **valueAddr,
						   const char *bootValue, GucContext context,
						   int flags, GucStringCheckHook check,
						   GucStringAssignHook assign, GucShowHook show)
{
	fuzz_setting_name = name;
	check_hook = check;
	assign_hook = assign;
	fuzz_check(fuzz_setting_set(bootValue));
}

bool
fuzz_setting_set(const char *value)
{
	char *copy = strdup(value);
	void *extra = NULL;

	GUC_check_errdetail_string = NULL;
	GUC_check_errhint_string = NULL;
	if (!check_hook(&copy, &extra, PGC_S_SESSION))
	{
		/* nobody is refused without being told why */
		fuzz_check(GUC_check_errdetail_string != NULL);
		fuzz_check(extra == NULL);
		free(copy);
		return false;
	}
	assign_hook(copy, extra);
	free(setting_value);
	free(setting_extra);
	setting_value = copy;
	setting_extra = extra;
	return true;
}

const char *
fuzz_setting_value(void)
{
	return setting_value;
}

/*
 * Numbers and booleans as the server reads them, near enough: whole numbers,
 * with a unit of time where units are taken; what cannot be read is refused.
 */
bool
parse_int(const char *value, int *result, int flags, const char **hintmsg)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (end == value || errno != 0)
		return false;
	if ((flags & GUC_UNIT_MS) && strcmp(end, "s") == 0)
	{
		if (number > INT_MAX || number < INT_MIN)
			return false;
		number *= 1000;
		end++;
	}
	else if ((flags & GUC_UNIT_MS) && strcmp(end, "ms") == 0)
		end += 2;
	if (*end != '\0' || number > INT_MAX || number < INT_MIN)
		return false;
	*result = (int) number;
	return true;
}

bool
parse_bool(const char *value, bool *result)
{
	*result = strcmp(value, "true") == 0 || strcmp(value, "on") == 0 ||
		strcmp(value, "1") == 0;
	return *result || strcmp(value, "false") == 0 ||
		strcmp(value, "off") == 0 || strcmp(value, "0") == 0;
}

/* SET, as functions of the module do it: what they write must be accepted. */
int
set_config_option(const char *name, const char *value, GucContext context,
				  GucSource source, GucAction action, bool changeVal,
				  int elevel, bool is_reload)
{
	fuzz_check(strcmp(name, fuzz_setting_name) == 0);
	fuzz_check(fuzz_setting_set(value));
	return 1;
}

/* ---------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------
 */

FuzzRow *fuzz_rows;
int fuzz_nrows;

void
fuzz_rows_clear(void)
{
	free(fuzz_rows);
	fuzz_rows = NULL;
	fuzz_nrows = 0;
}

void
InitMaterializedSRF(FunctionCallInfo fcinfo, bits32 flags)
{
	fuzz_rows_clear();
}

void
tuplestore_putvalues(Tuplestorestate *state, TupleDesc tdesc,
					 PUT_VALUES values, PUT_NULLS isnull)
{
	fuzz_rows = realloc(fuzz_rows, (fuzz_nrows + 1) * sizeof(FuzzRow));
	if (fuzz_rows == NULL)
		abort();
	memset(&fuzz_rows[fuzz_nrows], 0, sizeof(FuzzRow));
	/* the functions that a target calls put out two columns */
	memcpy(fuzz_rows[fuzz_nrows].values, values, 2 * sizeof(Datum));
	memcpy(fuzz_rows[fuzz_nrows].nulls, isnull, 2 * sizeof(bool));
	fuzz_nrows++;
}

text *
cstring_to_text_with_len(const char *s, int len)
{
	text *result = palloc(len + VARHDRSZ);

	SET_VARSIZE(result, len + VARHDRSZ);
	memcpy(VARDATA(result), s, len);
	return result;
}

Datum
fuzz_text(const char *data, size_t len)
{
	return PointerGetDatum(cstring_to_text_with_len(data, len));
}

int
pg_itoa(int16 i, char *a)
{
	return sprintf(a, "%d", i);
}

int
pg_ltoa(int32 l, char *a)
{
	return sprintf(a, "%d", l);
}

int
pg_lltoa(int64 ll, char *a)
{
	return sprintf(a, INT64_FORMAT, ll);
}

/* Nothing here is compressed or stored elsewhere. */
struct varlena *
pg_detoast_datum(struct varlena *datum)
{
	return datum;
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

/* ---------------------------------------------------------------------------
 * Inputs and checks
 * ---------------------------------------------------------------------------
 */

Input
fuzz_begin(const uint8_t *data, size_t size)
{
	Input in = {data, data + size};

	while (blocks.next != &blocks)
		release(blocks.next + 1);
	fuzz_rows_clear();
	return in;
}

uint8_t
fuzz_byte(Input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

uint64_t
fuzz_uint64(Input *in)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | fuzz_byte(in);
	return value;
}

static char *
take_string(Input *in, const uint8_t *end)
{
	char *result = palloc(end - in->at + 1);
	size_t len = 0;

	for (; in->at < end; in->at++)
		if (*in->at != '\0')
			result[len++] = *in->at;
	result[len] = '\0';
	return repalloc(result, len + 1);
}

char *
fuzz_line(Input *in)
{
	const uint8_t *end = memchr(in->at, '\n', in->end - in->at);
	char *result = take_string(in, end ? end : in->end);

	if (end)
		in->at = end + 1;
	return result;
}

char *
fuzz_rest(Input *in)
{
	return take_string(in, in->end);
}

void
fuzz_failed(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
	abort();
}
