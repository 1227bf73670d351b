/*-------------------------------------------------------------------------
 *
 * fencing_redis.c
 *		Initialization of the library, and the arguments of its functions.
 *
 * The parts, each using only those before it:
 *
 *	refusal		every refusal that a user can meet
 *	option		options of servers and user mappings
 *	resolve		addresses of a host name, without waiting for them
 *	command		commands as bytes, and the scripts
 *	wire, tls	one connection to one Redis server, never waiting
 *	server		a foreign server as the current user may use it
 *	exchange	one command to each of several nodes, and their answers
 *	quorum		what the nodes decide together about one lease
 *	held		the leases that this session holds, and their release
 *	waiter		waiting for a lease that somebody else holds
 *	lease		the SQL functions for leases
 *	status		what can be seen
 *
 * It meets the extension fencing in SQL alone: next_token and present.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "fencing_redis.h"
#include "held.h"
#include "quorum.h"
#include "refusal.h"

#define LONGEST_DAYS                                                          \
	(100.0 * MONTHS_PER_YEAR * DAYS_PER_MONTH) /* of a ttl or wait */

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static char *server_setting = NULL;

void
_PG_init(void)
{
	DefineCustomStringVariable("fencing_redis.server",
							   "Foreign server of the functions of fencing_redis that are not given one.",
							   NULL, &server_setting, "", PGC_USERSET, 0, NULL,
							   NULL, NULL);
	MarkGUCPrefixReserved("fencing_redis");
	server_init();
	held_init();
	lease_init();
}

char *
arg_name(FunctionCallInfo fcinfo, int argno, const char *name,
		 bool null_allowed)
{
	text *value;

	if (PG_ARGISNULL(argno))
	{
		if (!null_allowed)
			refuse_argument(name, "NULL", "Give a name of 1 to 512 bytes.");
		return NULL;
	}
	value = PG_GETARG_TEXT_PP(argno);
	if (VARSIZE_ANY_EXHDR(value) == 0)
		refuse_argument(name, "empty", "Give a name of 1 to 512 bytes.");
	if (VARSIZE_ANY_EXHDR(value) > NAME_MAX_BYTES)
		refuse_argument(name, "too long", "Give a name of 1 to 512 bytes.");
	return text_to_cstring(value);
}

Server *
arg_server(FunctionCallInfo fcinfo, int argno)
{
	Name server;

	if (PG_ARGISNULL(argno))
		refuse_argument("server", "NULL",
						"Name a foreign server, or set fencing_redis.server.");
	server = PG_GETARG_NAME(argno);
	if (NameStr(*server)[0] == '\0')
		refuse_argument("server", "empty",
						"Name a foreign server, or set fencing_redis.server.");
	return server_get(NameStr(*server));
}

/* Parts of a millisecond are rounded up, so that something is left. */
int64
arg_milliseconds(FunctionCallInfo fcinfo, int argno, const char *name,
				 bool zero_allowed)
{
	Interval *interval;
	double usecs;

	if (PG_ARGISNULL(argno))
		refuse_argument(name, "NULL", "Give a length of time.");
	interval = PG_GETARG_INTERVAL_P(argno);

	/* a month is 30 days, as everywhere; infinite ones are huge here */
	usecs = (double) interval->time +
		((double) interval->day + (double) DAYS_PER_MONTH * interval->month) *
			USECS_PER_DAY;
	if (usecs < 0)
		refuse_argument(name, "negative", "Give a positive length of time.");
	if (usecs == 0 && !zero_allowed)
		refuse_argument(name, "zero", "Give a positive length of time.");
	if (usecs > LONGEST_DAYS * USECS_PER_DAY)
		refuse_argument(name, "too long",
						"Give a length of time of up to 100 years.");
	return (int64) ceil(usecs / 1000.0);
}
