/*-------------------------------------------------------------------------
 *
 * refusal.h
 *		Every refusal that a user of fencing_redis can meet.
 *
 * As in fencing's refuse.h.  None of these takes a lock or touches a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_REFUSAL_H
#define FENCING_REDIS_REFUSAL_H

#include "../compat.h"

#define ERRCODE_FENCING_LEASE_NOT_HELD MAKE_SQLSTATE('Z', 'F', '0', '0', '4')
#define ERRCODE_FENCING_COORDINATOR_UNAVAILABLE                               \
	MAKE_SQLSTATE('Z', 'F', '0', '0', '5')
#define ERRCODE_FENCING_TOKEN_OUT_OF_RANGE                                    \
	MAKE_SQLSTATE('Z', 'F', '0', '0', '6')

/* HV00D: "valid" lists the names; in_mapping: it belongs to a user mapping. */
pg_noreturn extern void
refuse_unknown_option(const char *name, const char *valid, bool in_mapping);

/* 22023: "problem" is a clause; value NULL where it must not be shown. */
pg_noreturn extern void refuse_option(const char *name, const char *value,
									  const char *problem, const char *hint);
pg_noreturn extern void refuse_option_number(const char *name,
											 const char *value, int min,
											 int max, bool milliseconds);

/* 0A000: this library was built without TLS. */
pg_noreturn extern void refuse_no_tls(void);

/* 42501: password_required = false by somebody else than a superuser. */
pg_noreturn extern void refuse_password_not_required(void);

/* 2F003: no password in the mapping of somebody who needs one. */
pg_noreturn extern void refuse_no_password(const char *server);

/* 42809: not a server of this foreign data wrapper. */
pg_noreturn extern void refuse_server_kind(const char *server);

/* 22023: an argument of a function; "hint" is a sentence. */
pg_noreturn extern void refuse_argument(const char *argument, const char *what,
										const char *hint);

/* 55P03.  milliseconds: what is left of the lease in the way, -1 unknown. */
pg_noreturn extern void refuse_busy(const char *resource, const char *server,
									int64 milliseconds, const char *limit);

/*
 * ZF005, or ZF006 where the word says that the counter is at its end.
 * "problem" says it for each node that did not do what it was asked; "word" is
 * the first one of a server's answer, "" for none.
 */
pg_noreturn extern void
refuse_unavailable(const char *action, const char *resource,
				   const char *server, const char *problem, const char *word);

/* ZF005: granted, but it took too long. */
pg_noreturn extern void refuse_too_late(const char *resource,
										const char *server, int64 ttl_ms);

/* 0A000: PREPARE TRANSACTION with a lease of the transaction. */
pg_noreturn extern void refuse_prepare(const char *resource);

/* WARNING ZF004. */
extern void warn_not_held(const char *resource, const char *server,
						  int64 token, bool unknown_holder);

/* WARNING ZF005, after the end of a transaction: must not raise. */
extern void warn_not_released(const char *resource, const char *server);

#endif /* FENCING_REDIS_REFUSAL_H */
