/*-------------------------------------------------------------------------
 *
 * template.c
 *		Fuzz target: templates, and the names made with them.
 *
 * Input: four values, each up to a newline, and the template.  A template
 * that is accepted, written out from its pieces, is the same text again.  Two
 * rows have one name only if they have the same values, where the template
 * promises that: one column, or columns with a ':' behind each but the last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"

#include "fuzz.h"
#include "resource.h"

/* A row is its values; the module reads them by nocachegetattr(). */
static Datum row_values[2];

Datum
nocachegetattr(HeapTuple tup, int attnum, TupleDesc att)
{
	fuzz_check(attnum >= 1 && attnum <= 2);
	return row_values[attnum - 1];
}

static TupleDesc
row_type(void)
{
	static TupleDesc desc = NULL;

	if (desc == NULL)
	{
		desc = calloc(1,
					  offsetof(struct TupleDescData, attrs) +
						  2 * sizeof(FormData_pg_attribute) +
						  2 * 64 /* what newer servers keep beside them */);
		if (desc == NULL)
			abort();
		desc->natts = 2;
#if PG_VERSION_NUM >= 180000
		for (int i = 0; i < 2; i++)
			TupleDescCompactAttr(desc, i)->attcacheoff = -1;
#else
		for (int i = 0; i < 2; i++)
			desc->attrs[i].attcacheoff = -1;
#endif
	}
	return desc;
}

static HeapTuple
row(const char *a, const char *b)
{
	static struct
	{
		HeapTupleData tuple;
		HeapTupleHeaderData header;
	} row;

	row.tuple.t_data = &row.header;
	HeapTupleHeaderSetNatts(&row.header, 2);
	row_values[0] = fuzz_text(a, strlen(a));
	row_values[1] = fuzz_text(b, strlen(b));
	return &row.tuple;
}

static void
check_written_out(const ResourceTemplate *tmpl, const char *original)
{
	StringInfoData text;
	int columns = 0;

	initStringInfo(&text);
	for (int i = 0; i < tmpl->nparts; i++)
	{
		const TemplatePart *part = &tmpl->parts[i];

		fuzz_check(part->literal_len == (int) strlen(part->literal));
		for (const char *p = part->literal; *p; p++)
		{
			appendStringInfoChar(&text, *p);
			if (*p == '{' || *p == '}')
				appendStringInfoChar(&text, *p);
		}
		/* the last piece, and it alone, has no column */
		fuzz_check((part->column == NULL) == (i == tmpl->nparts - 1));
		if (part->column)
		{
			fuzz_check(*part->column != '\0' &&
					   strlen(part->column) < NAMEDATALEN);
			appendStringInfo(&text, "{%s}", part->column);
			columns++;
		}
	}
	fuzz_check(columns == tmpl->ncolumns);
	fuzz_check(strcmp(text.data, original) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in = fuzz_begin(data, size);
	char *values[4];
	char *text;
	const char *problem;
	const char *column = NULL;
	ResourceTemplate tmpl;
	ResourceName names[2];
	NameProblem made[2];
	bool promised = true;
	int n = 0;

	for (int i = 0; i < 4; i++)
		values[i] = fuzz_line(&in);
	text = fuzz_rest(&in);

	problem = fencing_template_parse(text, &tmpl);
	if (problem)
	{
		fuzz_check(problem[0] != '\0' && problem[strlen(problem) - 1] == '.');
		return 0;
	}
	check_written_out(&tmpl, text);
	if (tmpl.ncolumns < 1 || tmpl.ncolumns > 2)
		return 0;

	for (int i = 0; i < tmpl.nparts; i++)
	{
		if (tmpl.parts[i].column == NULL)
			continue;
		tmpl.parts[i].output = OUTPUT_TEXT;
		tmpl.parts[i].attnum = ++n;
		if (n == 2 && tmpl.parts[i].literal[0] != ':')
			promised = false;
	}
	for (int i = 0; i < 2; i++)
	{
		/* poison: what is not written shows in the comparison */
		memset(&names[i], i, sizeof(names[i]));
		made[i] = fencing_template_apply(&tmpl,
										 row(values[i * 2], values[i * 2 + 1]),
										 row_type(), &names[i], &column);
		fuzz_check(made[i] != NAME_NULL_COLUMN);
		if (made[i] != NAME_OK)
			continue;
		fuzz_check(names[i].len >= 1 && names[i].len <= FENCING_RESOURCE_MAX);
		fuzz_check(names[i].data[names[i].len] == '\0');
		fuzz_check((int) strlen(names[i].data) == names[i].len);
	}
	if (made[0] == NAME_OK && made[1] == NAME_OK)
	{
		bool same_values = strcmp(values[0], values[2]) == 0 &&
			(tmpl.ncolumns == 1 || strcmp(values[1], values[3]) == 0);
		bool same_names = fencing_name_cmp(names[0].data, names[0].len,
										   names[1].data, names[1].len) == 0;

		if (same_values)
			fuzz_check(same_names);
		else if (promised)
			fuzz_check(!same_names);
	}
	return 0;
}
