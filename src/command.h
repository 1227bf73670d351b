/*-------------------------------------------------------------------------
 *
 * command.h
 *		Durable records that a request was handled, and its outcome.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_COMMAND_H
#define FENCING_COMMAND_H

/* Registers the callbacks that watch over commands that were begun. */
extern void fencing_command_init(void);

#endif /* FENCING_COMMAND_H */
