/*-------------------------------------------------------------------------
 *
 * tls.h
 *		TLS on a connection, where hiredis has it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_TLS_H
#define FENCING_REDIS_TLS_H

#include "wire.h"

extern bool tls_available(void);

/*
 * Begins the handshake, which goes on with what is sent next.  false: the
 * connection has failed.
 */
extern bool tls_start(Wire *wire);

/* If TLS is what went wrong, fails the connection with that and returns true. */
extern bool tls_problem(Wire *wire);

#endif /* FENCING_REDIS_TLS_H */
