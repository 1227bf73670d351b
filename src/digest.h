/*-------------------------------------------------------------------------
 *
 * digest.h
 *		Fixed-length stand-ins for commands and their requests.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_DIGEST_H
#define FENCING_DIGEST_H

#include "utils/jsonb.h"
#include "utils/uuid.h"

#define REQUEST_DIGEST_LENGTH 32 /* of SHA-256 */

/*
 * The identity of a command: the same for the same scope and key, in every
 * database.  The digest of a request: the same for two jsonb values exactly if
 * they are equal as jsonb (but for a collision of SHA-256).  Both raise out of
 * memory at worst; what they allocate is freed.
 */
extern void fencing_command_id(const char *scope, int scope_len,
							   const char *key, int key_len, pg_uuid_t *id);
extern void fencing_request_digest(Jsonb *request,
								   uint8 digest[REQUEST_DIGEST_LENGTH]);

#endif /* FENCING_DIGEST_H */
