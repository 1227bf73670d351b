/*-------------------------------------------------------------------------
 *
 * refuse.h
 *		Every refusal that a user can meet: its SQLSTATE and its words.
 *
 * A refusal is also counted and remembered (stats.h, recent.h).  To tell who
 * raised a mark its row in fencing.marks is looked up, without a lock; nothing
 * else is read.  Functions declared pg_noreturn raise an ERROR; what they say
 * is built in ErrorContext, so nothing has to be freed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REFUSE_H
#define FENCING_REFUSE_H

#include "datatype/timestamp.h"
#include "utils/rel.h"

#include "compat.h"
#include "stats.h"

/* Class ZF: implementation-defined, evicted by no pool, retried by no layer */
#define ERRCODE_FENCING_STALE_TOKEN MAKE_SQLSTATE('Z', 'F', '0', '0', '1')
#define ERRCODE_FENCING_MISSING_TOKEN MAKE_SQLSTATE('Z', 'F', '0', '0', '2')
#define ERRCODE_FENCING_DEADLINE_PASSED MAKE_SQLSTATE('Z', 'F', '0', '0', '3')
#define ERRCODE_FENCING_LEASE_NOT_HELD MAKE_SQLSTATE('Z', 'F', '0', '0', '4')
#define ERRCODE_FENCING_TOKEN_OUT_OF_RANGE                                    \
	MAKE_SQLSTATE('Z', 'F', '0', '0', '6')
#define ERRCODE_FENCING_COMMAND_MISMATCH MAKE_SQLSTATE('Z', 'F', '0', '0', '7')
#define ERRCODE_FENCING_COMMAND_IN_PROGRESS                                   \
	MAKE_SQLSTATE('Z', 'F', '0', '0', '8')
#define ERRCODE_FENCING_BROKEN_FENCE MAKE_SQLSTATE('Z', 'F', '0', '0', '9')

/* Why a token was not accepted. */
typedef enum RefusalKind
{
	REFUSAL_STALE,		  /* lower than the mark */
	REFUSAL_STALE_EQUAL,  /* equal to the mark of a strict fence */
	REFUSAL_MISSING,	  /* there is none */
	REFUSAL_STEP,		  /* more than max_step above the mark */
	REFUSAL_NEVER_ISSUED, /* the database's issuer has not reached it */
	REFUSAL_INVALID		  /* lower than 1 */
} RefusalKind;

/* What was refused.  Fields that do not apply to the kind are not read. */
typedef struct Refusal
{
	RefusalKind kind;
	Relation rel; /* the fenced table, NULL for a claim */
	const char *resource;
	int64 token;
	int64 mark;
	int64 limit;		  /* max_step, or the last token issued */
	const char *column;	  /* token column of a row mark, else NULL */
	bool accept_column;	  /* may the column carry the token? */
	bool mark_stored;	  /* is the mark one of fencing.marks? */
	StatCounter *counter; /* where it is counted, NULL: nowhere */
} Refusal;

/* Raises the refusal: ZF001, ZF002, ZF006 or, for an invalid token, 22023. */
pg_noreturn extern void fencing_refuse(const Refusal *refusal);

/*
 * Shadow: counts what would have been refused, says so in the server log the
 * first time in a minute for the table and application, and returns.
 */
extern void fencing_refuse_in_shadow(const Refusal *refusal);

/* on_stale => 'skip': the same for a row that is left out, without the log. */
extern void fencing_refuse_by_skip(const Refusal *refusal);

/* ZF009.  "problem" and "hint" are sentences. */
pg_noreturn extern void fencing_broken_fence(Relation rel, const char *problem,
											 const char *hint);

/* 22004: a template column of the row is NULL.  22023: name empty, too long. */
pg_noreturn extern void fencing_null_key(Relation rel, const char *column);
pg_noreturn extern void fencing_bad_name(Relation rel, bool empty);

/* ZF002: TRUNCATE carries no token. */
pg_noreturn extern void fencing_refuse_truncate(Relation rel,
												StatCounter *counter);
extern void fencing_truncate_in_shadow(Relation rel, StatCounter *counter);

/* ZF003 at commit or PREPARE TRANSACTION. */
pg_noreturn extern void fencing_deadline_passed(TimestampTz deadline,
												TimestampTz now);

/* ZF001 at commit: a stale write was refused before, and caught. */
pg_noreturn extern void fencing_stale_aborted(void);

/* 40001: an owner that this transaction's snapshot does not know. */
pg_noreturn extern void fencing_serialization_failure(const char *resource);

/*
 * 55P03: a lease could not be had, with the one that is in the way (token 0:
 * that is not known).  "limit" is what ended the wait for it: an argument or a
 * setting, NULL if there was no wait.
 */
pg_noreturn extern void fencing_lease_busy(const char *resource, int64 token,
										   const char *holder,
										   TimestampTz expires_at,
										   const char *limit);

/*
 * Warns (ZF004) that a lease is not held with a token, and says what there is
 * instead: a lease with token "current" (0: none) that ends or ended then.
 */
extern void fencing_lease_not_held(const char *resource, int64 token,
								   int64 current, TimestampTz expires_at);

/* ZF007: a command has another "request" or "outcome" than before. */
pg_noreturn extern void
fencing_command_mismatch(const char *scope, const char *key, const char *what);

/* ZF008: another transaction handles it, or this one and has not finished. */
pg_noreturn extern void fencing_command_in_progress(const char *scope,
													const char *key, bool own);

/* ZF001: another worker has taken the command over. */
pg_noreturn extern void fencing_command_stale(const char *scope,
											  const char *key, int64 token,
											  int64 current);

/* 42704: there is no such command.  55000: it cannot be committed like this. */
pg_noreturn extern void fencing_command_unknown(const char *scope,
												const char *key);
pg_noreturn extern void fencing_command_unfinished(const char *scope,
												   const char *key);

/* ZF006: no larger token can be made. */
pg_noreturn extern void fencing_tokens_exhausted(const char *resource,
												 int64 last);

/* 22023: an argument of a function; "hint" is a sentence. */
pg_noreturn extern void
fencing_bad_argument(const char *argument, const char *what, const char *hint);

/* 22023: a token below 1 given as an argument. */
pg_noreturn extern void fencing_bad_token(int64 token);

/* 55000: an object in the database is older than this library. */
pg_noreturn extern void fencing_outdated(const char *what, const char *name);

/* 39P01: a trigger function was attached or called in another way. */
pg_noreturn extern void fencing_trigger_misuse(const char *function);

#endif /* FENCING_REFUSE_H */
