/*-------------------------------------------------------------------------
 *
 * arguments.c
 *		Fuzz target: the arguments of a guard trigger.
 *
 * Input: the arguments, each up to a newline.  A declaration that is accepted
 * can be written out in full and reads the same; and the order of the
 * arguments does not matter, neither to what is read nor to being accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fence.h"
#include "fuzz.h"

#define MAX_ARGUMENTS 24

/* NULL and NULL, or the same text. */
static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool
same(const Declaration *a, const Declaration *b)
{
	return a->mark == b->mark && same_text(a->resource, b->resource) &&
		same_text(a->token_column, b->token_column) &&
		a->accept_column == b->accept_column && a->skip == b->skip &&
		a->tombstones == b->tombstones && a->shadow == b->shadow &&
		a->rule.strict == b->rule.strict &&
		a->rule.max_step == b->rule.max_step &&
		a->rule.issued_only == b->rule.issued_only;
}

static int
write_out(const Declaration *decl, char **args)
{
	int n = 0;

	args[n++] = psprintf("mark=%s",
						 decl->mark == MARK_ROW ? "row" : "resource");
	args[n++] = psprintf("resource=%s", decl->resource);
	if (decl->token_column)
		args[n++] = psprintf("token_column=%s", decl->token_column);
	args[n++] = psprintf("accept_column=%s",
						 decl->accept_column ? "true" : "false");
	args[n++] = psprintf("on_stale=%s", decl->skip ? "skip" : "error");
	args[n++] = psprintf("strict=%s", decl->rule.strict ? "true" : "false");
	if (decl->rule.max_step != 0)
		args[n++] = psprintf("max_step=" INT64_FORMAT, decl->rule.max_step);
	args[n++] = psprintf("issuer=%s",
						 decl->rule.issued_only ? "database" : "any");
	args[n++] = psprintf("tombstones=%s", decl->tombstones ? "true" : "false");
	args[n++] = psprintf("shadow=%s", decl->shadow ? "true" : "false");
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in = fuzz_begin(data, size);
	char *args[MAX_ARGUMENTS];
	char *others[MAX_ARGUMENTS];
	int nargs = 0;
	int nothers;
	Declaration decl;
	Declaration again;
	const char *problem;

	while (nargs < MAX_ARGUMENTS && in.at < in.end)
		args[nargs++] = fuzz_line(&in);
	problem = fencing_declaration_read(nargs, args, &decl);
	for (int i = 0; i < nargs; i++)
		others[i] = args[nargs - 1 - i];
	fuzz_check((fencing_declaration_read(nargs, others, &again) == NULL) ==
			   (problem == NULL));
	if (problem)
	{
		fuzz_check(*problem != '\0' && problem[strlen(problem) - 1] == '.');
		return 0;
	}
	fuzz_check(same(&decl, &again));
	fuzz_check(decl.resource != NULL && decl.rule.max_step >= 0);
	fuzz_check((decl.mark == MARK_ROW) == (decl.token_column != NULL));

	nothers = write_out(&decl, others);
	fuzz_check(fencing_declaration_read(nothers, others, &again) == NULL);
	fuzz_check(same(&decl, &again));
	return 0;
}
