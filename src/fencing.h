/*-------------------------------------------------------------------------
 *
 * fencing.h
 *		What every part of the extension shares: limits, settings, names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_H
#define FENCING_H

/* A resource name has 1 to this many bytes, in the database's encoding. */
#define FENCING_RESOURCE_MAX 512

/* The schema that the extension lives in; it is not relocatable. */
#define FENCING_SCHEMA "fencing"

/* Functions and triggers of a fence, as CREATE TRIGGER names them. */
#define FENCING_GUARD_FUNCTION "guard"
#define FENCING_RECHECK_FUNCTION "guard_recheck"
#define FENCING_TRUNCATE_FUNCTION "guard_truncate"

/*
 * BEFORE ROW triggers fire in the byte order of their names and the guard
 * must see what is going to be stored, hence the z's.
 */
#define FENCING_GUARD_TRIGGER "zzz_fencing_guard"
#define FENCING_RECHECK_TRIGGER "zzz_fencing_recheck"
#define FENCING_TRUNCATE_TRIGGER "zzz_fencing_truncate"

/* Values of the setting fencing.enforcement. */
typedef enum Enforcement
{
	ENFORCEMENT_OFF,
	ENFORCEMENT_SHADOW,
	ENFORCEMENT_ON
} Enforcement;

extern int fencing_enforcement;
extern bool fencing_stale_aborts;

#endif /* FENCING_H */
