/*-------------------------------------------------------------------------
 *
 * deadline.c
 *		The moment after which a transaction may not commit.
 *
 * Like the presented tokens, the deadline lives in a setting alone, so that
 * savepoints and SET clauses do for it what they do for any setting.  The
 * check hook keeps the parsed moment beside the text.  Words such as 'now' or
 * 'tomorrow' are refused: guc.c may parse a value again later, when they would
 * mean another moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "deadline.h"

static char *deadline_setting = NULL;

TimestampTz fencing_deadline = DT_NOEND;

static bool check_deadline(char **newval, void **extra, GucSource source);
static void assign_deadline(const char *newval, void *extra);
static bool parse_moment(const char *text, TimestampTz *moment);

void
fencing_deadline_arg(FunctionCallInfo fcinfo, int argno)
{
	if (!PG_ARGISNULL(argno))
		fencing_deadline_lower(PG_GETARG_TIMESTAMPTZ(argno));
}

void
fencing_deadline_init(void)
{
	DefineCustomStringVariable("fencing.deadline",
							   "A transaction that presented tokens does not commit after this moment.",
							   "A timestamp with time zone; empty for none.",
							   &deadline_setting, "", PGC_USERSET, 0,
							   check_deadline, assign_deadline, NULL);
}

void
fencing_deadline_lower(TimestampTz deadline)
{
	char text[MAXDATELEN + 1];
	struct pg_tm tm;
	fsec_t fsec;
	int tz = 0;

	if (deadline >= fencing_deadline)
		return;
	if (TIMESTAMP_NOT_FINITE(deadline))
		EncodeSpecialTimestamp(deadline, text);
	else
	{
		/* UTC and ISO, so that no setting changes what is read back */
		if (timestamp2tm(deadline, NULL, &tm, &fsec, NULL, NULL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("timestamp out of range")));
		tm.tm_isdst = 0; /* known, or EncodeDateTime leaves the zone out */
		EncodeDateTime(&tm, fsec, true, tz, NULL, USE_ISO_DATES, text);
	}
	(void) set_config_option("fencing.deadline", text, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

static bool
check_deadline(char **newval, void **extra, GucSource source)
{
	TimestampTz moment;
	TimestampTz *keep;

	if (**newval == '\0')
		return true;
	if (!parse_moment(*newval, &moment))
	{
		GUC_check_errdetail(
			"The value is not a timestamp with a fixed meaning.");
		GUC_check_errhint(
			"Write it like 2030-01-31 12:00:00+00, or leave it empty for no deadline.");
		return false;
	}
	keep = fencing_guc_malloc(LOG, sizeof(TimestampTz));
	if (keep == NULL)
		return false;
	*keep = moment;
	*extra = keep;
	return true;
}

static void
assign_deadline(const char *newval, void *extra)
{
	fencing_deadline = extra ? *(TimestampTz *) extra : DT_NOEND;
}

/*
 * What timestamptz_in does, without its errors, for absolute moments and the
 * two infinities.
 */
static bool
parse_moment(const char *text, TimestampTz *moment)
{
	static const char *const words[] = {"now", "today", "tomorrow",
										"yesterday", "epoch"};
	char workbuf[MAXDATELEN + MAXDATEFIELDS];
	char *field[MAXDATEFIELDS];
	int ftype[MAXDATEFIELDS];
	int nf;
	int dtype;
	struct pg_tm tm;
	fsec_t fsec;
	int tz;

	if (ParseDateTime(text, workbuf, sizeof(workbuf), field, ftype,
					  MAXDATEFIELDS, &nf) != 0)
		return false;
	for (int i = 0; i < nf; i++)
		for (int w = 0; w < (int) lengthof(words); w++)
			if (pg_strcasecmp(field[i], words[w]) == 0)
				return false;
	if (fencing_decode_datetime(field, ftype, nf, &dtype, &tm, &fsec, &tz) !=
		0)
		return false;
	switch (dtype)
	{
		case DTK_DATE:
			return tm2timestamp(&tm, fsec, &tz, moment) == 0;
		case DTK_LATE:
			TIMESTAMP_NOEND(*moment);
			return true;
		case DTK_EARLY:
			TIMESTAMP_NOBEGIN(*moment);
			return true;
		default:
			return false;
	}
}
