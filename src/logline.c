/*-------------------------------------------------------------------------
 *
 * logline.c
 *		The form of what the extension writes to the server log.
 *
 * One line for one event, whose words and keys stay as they are from release
 * to release, since people search for them:
 *
 *		fencing: shadow reason=stale_token table="public.stock" ...
 *
 * Texts come from applications.  They are put between double quotes; a quote
 * or backslash in one has a backslash before it, and a control character is
 * written \xHH, so that no resource name can forge a second line.  Neither the
 * statement nor its context goes along: they may hold data of the row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "logline.h"

void
fencing_log_begin(StringInfo line, const char *event)
{
	initStringInfo(line);
	appendStringInfo(line, "fencing: %s", event);
}

void
fencing_log_text(StringInfo line, const char *key, const char *value)
{
	if (value == NULL)
		return;
	appendStringInfo(line, " %s=\"", key);
	for (const char *c = value; *c; c++)
	{
		if (*c == '"' || *c == '\\')
			appendStringInfo(line, "\\%c", *c);
		else if ((unsigned char) *c < ' ' || *c == 0x7f)
			appendStringInfo(line, "\\x%02X", (unsigned char) *c);
		else
			appendStringInfoChar(line, *c);
	}
	appendStringInfoChar(line, '"');
}

void
fencing_log_number(StringInfo line, const char *key, int64 value)
{
	appendStringInfo(line, " %s=" INT64_FORMAT, key, value);
}

void
fencing_log_table(StringInfo line, Relation rel)
{
	const char *schema = get_namespace_name(RelationGetNamespace(rel));

	fencing_log_text(line, "table",
					 psprintf("%s.%s", schema ? schema : "",
							  RelationGetRelationName(rel)));
}

void
fencing_log_who(StringInfo line)
{
	fencing_log_text(line, "role",
					 GetUserNameFromId(GetSessionUserId(), true));
	if (application_name && application_name[0] != '\0')
		fencing_log_text(line, "application", application_name);
	fencing_log_text(line, "client", fencing_client_address());
}

void
fencing_log_write(StringInfo line, int sqlstate)
{
	ereport(LOG,
			(sqlstate != 0 ? errcode(sqlstate) : 0,
			 errmsg_internal("%s", line->data), errhidestmt(true),
			 errhidecontext(true)));
	pfree(line->data);
}

const char *
fencing_client_address(void)
{
	static char address[CLIENT_ADDRESS_MAX] = "";
	static bool known = false;

	if (!known)
	{
		LOCAL_FCINFO(fcinfo, 0);
		Datum value;

		/* what a client of its own would be told */
		InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
		value = inet_client_addr(fcinfo);
		if (!fcinfo->isnull)
			strlcpy(address,
					DatumGetCString(DirectFunctionCall1(inet_out, value)),
					sizeof(address));
		known = true;
	}
	return address[0] != '\0' ? address : NULL;
}
