/*-------------------------------------------------------------------------
 *
 * resource.c
 *		Names of resources, and templates that make them from a row.
 *
 * A template is text with column names in braces: "line:{order_id}:{line}".
 * The name of a row's resource is the template with each column replaced by
 * the text output of its value.  That text must be the same in every session,
 * or two writers of one row would speak of two resources.  Most types' output
 * is a function of the value alone.  For those whose output obeys a setting
 * (DateStyle, TimeZone, bytea_output, extra_float_digits, search_path, ...)
 * the settings are pinned around the call, the way postgres_fdw pins what it
 * sends to another server.
 *
 * With two or more columns, ':' and '\' within a value are escaped with '\',
 * so that a template whose columns are separated by ':' gives different names
 * to different keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "refuse.h"
#include "resource.h"

/* Settings that output functions of the core types look at. */
static const char *const pinned_settings[][2] = {
	{"bytea_output",		 "hex"		  },
	 {"datestyle",		   "ISO, MDY"	 },
	{"extra_float_digits", "1"		  },
	 {"intervalstyle",	   "postgres"	 },
	{"lc_monetary",		"C"		   },
	 {"search_path",		 "pg_catalog"},
	{"timezone",			 "UTC"		  },
};

static ValueOutput classify_output(Oid type, Oid outfunc);
static void append_value(TemplatePart *part, Datum value, StringInfo buf);
static char *pinned_output(FmgrInfo *outfunc, Datum value);

const char *
fencing_template_parse(const char *text, ResourceTemplate *tmpl)
{
	StringInfoData literal;
	const char *p = text;
	int maxparts = 2;

	/* each piece but the last ends at a '{', so this many are enough */
	for (const char *q = text; *q; q++)
		maxparts += (*q == '{');

	tmpl->nparts = 0;
	tmpl->ncolumns = 0;
	tmpl->parts = palloc0(maxparts * sizeof(TemplatePart));
	initStringInfo(&literal);

	if (*text == '\0')
		return "It is empty.";

	for (;;)
	{
		TemplatePart *part = &tmpl->parts[tmpl->nparts];
		const char *end;

		if ((p[0] == '{' && p[1] == '{') || (p[0] == '}' && p[1] == '}'))
		{
			appendStringInfoChar(&literal, *p);
			p += 2;
			continue;
		}
		if (*p == '}')
			return "A \"}\" has no \"{\" before it; a literal one is written \"}}\".";
		if (*p != '{' && *p != '\0')
		{
			appendStringInfoChar(&literal, *p++);
			continue;
		}

		/* a column or the end: either closes the piece */
		part->literal = pnstrdup(literal.data, literal.len);
		part->literal_len = literal.len;
		resetStringInfo(&literal);
		tmpl->nparts++;
		if (*p == '\0')
			break;

		end = p + 1;
		while (*end != '\0' && *end != '}' && *end != '{')
			end++;
		if (*end != '}')
			return "A \"{\" is not closed by \"}\"; a literal one is written \"{{\".";
		if (end == p + 1)
			return "There is no column name between \"{\" and \"}\".";
		if (end - (p + 1) >= NAMEDATALEN)
			return "A column name in it is too long.";
		if (tmpl->ncolumns > 0 && part->literal_len == 0)
			return "Two columns stand side by side; without text between them different keys get the same name.";
		part->column = pnstrdup(p + 1, end - (p + 1));
		tmpl->ncolumns++;
		p = end + 1;
	}
	pfree(literal.data);
	return NULL;
}

const char *
fencing_template_bind(ResourceTemplate *tmpl, TupleDesc desc,
					  MemoryContext cxt, bool *generated)
{
	*generated = false;
	for (int i = 0; i < tmpl->nparts; i++)
	{
		TemplatePart *part = &tmpl->parts[i];
		Oid outfunc;
		bool varlena;
		int attnum;
		Form_pg_attribute att;

		if (part->column == NULL)
			continue;
		attnum = SPI_fnumber(desc, part->column);
		if (attnum <= 0)
			return part->column;
		att = TupleDescAttr(desc, attnum - 1);
		if (att->attgenerated != '\0')
		{
			*generated = true;
			return part->column;
		}
		part->attnum = att->attnum;
		part->byval = att->attbyval;
		part->typlen = att->attlen;
		getTypeOutputInfo(att->atttypid, &outfunc, &varlena);
		part->output = classify_output(getBaseType(att->atttypid), outfunc);
		fmgr_info_cxt(outfunc, &part->outfunc, cxt);
	}
	return NULL;
}

NameProblem
fencing_template_apply(ResourceTemplate *tmpl, HeapTuple row, TupleDesc desc,
					   ResourceName *name, const char **column)
{
	char *at = name->data;
	char *end = name->data + FENCING_RESOURCE_MAX;

	for (int i = 0; i < tmpl->nparts; i++)
	{
		TemplatePart *part = &tmpl->parts[i];
		Datum value;
		bool isnull;

		if (part->literal_len > end - at)
			return NAME_TOO_LONG;
		memcpy(at, part->literal, part->literal_len);
		at += part->literal_len;
		if (part->column == NULL)
			continue;

		value = heap_getattr(row, part->attnum, desc, &isnull);
		if (isnull)
		{
			*column = part->column;
			return NAME_NULL_COLUMN;
		}

		/*
		 * Integers are the common key and their digits need no escape: they
		 * go straight into the name.
		 */
		if (part->output <= OUTPUT_INT8)
		{
			char digits[MAXINT8LEN + 1];
			int len;

			if (part->output == OUTPUT_INT8)
				len = pg_lltoa(DatumGetInt64(value), digits);
			else if (part->output == OUTPUT_INT4)
				len = pg_ltoa(DatumGetInt32(value), digits);
			else
				len = pg_itoa(DatumGetInt16(value), digits);
			if (len > end - at)
				return NAME_TOO_LONG;
			memcpy(at, digits, len);
			at += len;
		}
		else
		{
			StringInfoData buf;

			initStringInfo(&buf);
			append_value(part, value, &buf);
			for (int c = 0; c < buf.len; c++)
			{
				bool escape = tmpl->ncolumns > 1 &&
					(buf.data[c] == ':' || buf.data[c] == '\\');

				if (at + escape >= end)
					return NAME_TOO_LONG;
				if (escape)
					*at++ = '\\';
				*at++ = buf.data[c];
			}
			pfree(buf.data);
		}
	}
	*at = '\0';
	name->len = at - name->data;
	return name->len == 0 ? NAME_EMPTY : NAME_OK;
}

bool
fencing_template_differs(const ResourceTemplate *tmpl, HeapTuple a,
						 HeapTuple b, TupleDesc desc)
{
	for (int i = 0; i < tmpl->nparts; i++)
	{
		const TemplatePart *part = &tmpl->parts[i];
		Datum va, vb;
		bool na, nb;

		if (part->column == NULL)
			continue;
		va = heap_getattr(a, part->attnum, desc, &na);
		vb = heap_getattr(b, part->attnum, desc, &nb);
		if (na != nb)
			return true;
		if (!na &&
			!(part->byval ? va == vb
						  : datumIsEqual(va, vb, false, part->typlen)))
			return true;
	}
	return false;
}

void
fencing_resource_from_arg(Datum arg, bool isnull, const char *what,
						  ResourceName *name)
{
	text *t;

	if (isnull)
		fencing_bad_argument(what, "NULL", "Give the name of a resource.");
	t = DatumGetTextPP(arg);
	if (VARSIZE_ANY_EXHDR(t) == 0)
		fencing_bad_argument(what, "empty",
							 "A resource name has 1 to 512 bytes.");
	if (VARSIZE_ANY_EXHDR(t) > FENCING_RESOURCE_MAX)
		fencing_bad_argument(what, "too long",
							 "A resource name has 1 to 512 bytes.");
	name->len = VARSIZE_ANY_EXHDR(t);
	memcpy(name->data, VARDATA_ANY(t), name->len);
	name->data[name->len] = '\0';
}

/*
 * How values of a type are written.  The output functions of float4, float8
 * and bytea are marked immutable although they look at a setting.
 */
static ValueOutput
classify_output(Oid type, Oid outfunc)
{
	switch (type)
	{
		case INT2OID:
			return OUTPUT_INT2;
		case INT4OID:
			return OUTPUT_INT4;
		case INT8OID:
			return OUTPUT_INT8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return OUTPUT_TEXT;
		case FLOAT4OID:
		case FLOAT8OID:
		case BYTEAOID:
			return OUTPUT_PINNED;
	}

	/* an enum's output is stable only because its labels can be renamed */
	if (get_typtype(type) == TYPTYPE_ENUM)
		return OUTPUT_PLAIN;
	return func_volatile(outfunc) == PROVOLATILE_IMMUTABLE ? OUTPUT_PLAIN
														   : OUTPUT_PINNED;
}

/* The text of a value whose type is not an integer. */
static void
append_value(TemplatePart *part, Datum value, StringInfo buf)
{
	if (part->output == OUTPUT_TEXT)
	{
		text *t = DatumGetTextPP(value);

		appendBinaryStringInfo(buf, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	}
	else if (part->output == OUTPUT_PLAIN)
		appendStringInfoString(buf, OutputFunctionCall(&part->outfunc, value));
	else
		appendStringInfoString(buf, pinned_output(&part->outfunc, value));
}

/*
 * Calls an output function with the settings it may look at held still.  They
 * come back when the nest level ends, on error with the transaction.
 */
static char *
pinned_output(FmgrInfo *outfunc, Datum value)
{
	int level = NewGUCNestLevel();
	char *result;

	for (int i = 0; i < (int) lengthof(pinned_settings); i++)
		(void) set_config_option(pinned_settings[i][0], pinned_settings[i][1],
								 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	result = OutputFunctionCall(outfunc, value);
	AtEOXact_GUC(true, level);
	return result;
}
