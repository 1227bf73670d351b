/*-------------------------------------------------------------------------
 *
 * refusal.c
 *		Every refusal that a user of fencing_redis can meet.
 *
 * As in fencing's refuse.c: what was refused, what it was decided on, and the
 * way out.  Nothing here shows an option of a user mapping.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "refusal.h"

/* What to do about the answers that Redis servers give. */
static const struct
{
	const char *word;
	const char *hint;
} answers[] = {
	{"NOAUTH",	   "Give the user mapping a user and a password."																					 },
	{"WRONGPASS",	  "Correct user and password in the user mapping."																				   },
	{"NOPERM",
	 "Allow the Redis user the commands eval, evalsha, get, set, incr, del, pexpire, pttl and publish on these keys and channels."					  },
	{"READONLY",
	 "This node is a replica. Name the primary in the option \"nodes\" of the server."																  },
	{"LOADING",		"Redis is loading its data. Try again in a moment."																				},
	{"MASTERDOWN",
	 "This node is a replica that has lost its primary. Name the primary in the option \"nodes\" of the server."										},
	{"BUSY",
	 "Some script has been running in Redis for long: SCRIPT KILL ends it."																			},
	{"OOM",
	 "Redis has used up maxmemory. Leases that are held can still be renewed and released."															   },
	{"NOREPLICAS",
	 "Fewer replicas than asked for have the lease: see the server's options \"replicas\" and \"replica_timeout\", and min-replicas-to-write of Redis."},
	{"WRONGTYPE",
	 "A key of the lease's name holds something else. Choose another lock_prefix or token_prefix for the server."										 },
	{"CLUSTERDOWN",
	 "The Redis cluster does not serve this key now. Try again when it is up."																		  },
	{"TRYAGAIN",
	 "The Redis cluster is moving this key to another node. Try again in a moment."																	   },
	{"CROSSSLOT",
	 "Lock and counter lie on different nodes of the cluster: set the option \"hash_tag\" of the server to true."										 },
	{"MISCONF",		"Redis refuses writes because it cannot save them to disk."																		   },
};

static const char *hint_for(const char *word);

void
refuse_unknown_option(const char *name, const char *valid, bool in_mapping)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 in_mapping	  ? errhint("This option belongs to the user mapping.")
				 : *valid ? errhint("Valid options here are: %s.", valid)
						  : errhint("There are no options here.")));
}

void
refuse_option(const char *name, const char *value, const char *problem,
			  const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("option \"%s\" %s", name, problem),
			 value ? errdetail("Value: \"%s\".", value) : 0,
			 errhint("%s", hint)));
}

void
refuse_option_number(const char *name, const char *value, int min, int max,
					 bool milliseconds)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 milliseconds
				 ? errmsg("option \"%s\" is not a length of time from %d ms to %d ms",
						  name, min, max)
				 : errmsg("option \"%s\" is not a whole number from %d to %d",
						  name, min, max),
			 errdetail("Value: \"%s\".", value),
			 milliseconds
				 ? errhint(
					   "Write a number of milliseconds, or a unit with it: 500ms, 2s.")
				 : 0));
}

void
refuse_no_tls(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("fencing_redis was built without TLS"),
			 errhint(
				 "Build it where hiredis 1.0 or later has TLS (hiredis_ssl), or connect through a tunnel on this machine.")));
}

void
refuse_password_not_required(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg(
				 "password_required = false may be set by superusers alone")));
}

void
refuse_no_password(const char *server)
{
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required for server \"%s\"", server),
			 errdetail(
				 "Non-superusers must have a password in their user mapping."),
			 errhint(
				 "Add one, or let a superuser set password_required 'false' there.")));
}

void
refuse_server_kind(const char *server)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("server \"%s\" is not a Redis server", server),
			 errhint("Create one with FOREIGN DATA WRAPPER fencing_redis.")));
}

void
refuse_argument(const char *argument, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is %s", argument, what),
			 errhint("%s", hint)));
}

void
refuse_busy(const char *resource, const char *server, int64 milliseconds,
			const char *limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("lease on resource \"%s\" is busy", resource),
			 milliseconds < 0
				 ? errdetail("Somebody else holds it on server \"%s\".",
							 server)
				 : errdetail("Somebody else holds it on server \"%s\", for " INT64_FORMAT
							 " ms if it is not renewed.",
							 server, milliseconds),
			 limit == NULL
				 ? errhint("Give a longer \"wait\", or try again later.")
				 : errhint("The wait was ended by \"%s\". Try again later.",
						   limit)));
}

void
refuse_unavailable(const char *action, const char *resource,
				   const char *server, const char *problem, const char *word)
{
	const char *hint = hint_for(word);

	if (strstr(problem, "would overflow") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
				 errmsg("no larger token can be made for resource \"%s\"",
						resource),
				 errdetail("%s", problem),
				 errhint(
					 "The counter in Redis is at its end. Find who set it, and set it to the resource's mark.")));
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_COORDINATOR_UNAVAILABLE),
			 resource != NULL
				 ? errmsg("server \"%s\" could not %s the lease on resource \"%s\"",
						  server, action, resource)
				 : errmsg("server \"%s\" could not %s", server, action),
			 errdetail("%s", problem), hint ? errhint("%s", hint) : 0));
}

void
refuse_too_late(const char *resource, const char *server, int64 ttl_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_COORDINATOR_UNAVAILABLE),
			 errmsg("server \"%s\" could not grant the lease on resource \"%s\" in time",
					server, resource),
			 errdetail("After the grant nothing was left of its " INT64_FORMAT
					   " ms.",
					   ttl_ms),
			 errhint("Ask for a longer ttl.")));
}

void
refuse_prepare(const char *resource)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that holds a lease"),
			 errdetail("The lease on resource \"%s\" ends with the transaction.",
					   resource),
			 errhint(
				 "Acquire it with scope 'session', and release it after COMMIT PREPARED.")));
}

void
warn_not_held(const char *resource, const char *server, int64 token,
			  bool unknown_holder)
{
	ereport(WARNING,
			(errcode(ERRCODE_FENCING_LEASE_NOT_HELD),
			 errmsg("lease on resource \"%s\" is not held with token " INT64_FORMAT,
					resource, token),
			 unknown_holder
				 ? errdetail("This session did not acquire it on server \"%s\".",
							 server)
				 : errdetail("It has ended on server \"%s\", or somebody else has it.",
							 server),
			 unknown_holder
				 ? errhint(
					   "In another session than the one that acquired it, give the holder as well.")
				 : errhint(
					   "Stop the work that relies on the lease. Acquire the resource again and start from a fresh read.")));
}

void
warn_not_released(const char *resource, const char *server)
{
	ereport(WARNING,
			(errcode(ERRCODE_FENCING_COORDINATOR_UNAVAILABLE),
			 errmsg("lease on resource \"%s\" could not be released on server \"%s\"",
					resource, server),
			 errdetail("It ends by itself when its time is over.")));
}

static const char *
hint_for(const char *word)
{
	for (size_t i = 0; i < lengthof(answers); i++)
		if (strcmp(answers[i].word, word) == 0)
			return answers[i].hint;
	return NULL;
}
