/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *		What the fuzz targets share: stand-ins for the server, and checks.
 *
 * A target is one source file with LLVMFuzzerTestOneInput, linked with the
 * module's real source files and with stubs.c.  It reads its input through an
 * Input, calls the code within FUZZ_TRY, and states with fuzz_check() what has
 * to be true of every outcome.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_FUZZ_H
#define FENCING_FUZZ_H

#include <setjmp.h>

#include "utils/guc.h"

/* What is left of an input. */
typedef struct Input
{
	const uint8_t *at;
	const uint8_t *end;
} Input;

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Frees what the input before has allocated and begins with this one. */
extern Input fuzz_begin(const uint8_t *data, size_t size);

/* The next byte, 8 bytes; 0 where the input has ended. */
extern uint8_t fuzz_byte(Input *in);
extern uint64_t fuzz_uint64(Input *in);

/*
 * A string up to the next newline, or to the end of the input; its bytes of
 * value 0 are left out.  Allocated by itself, so that an access outside of it
 * is found.
 */
extern char *fuzz_line(Input *in);

/* All that is left as a string, likewise. */
extern char *fuzz_rest(Input *in);

/* Aborts, for libFuzzer to keep the input, unless the condition holds. */
#define fuzz_check(condition)                                                 \
	do                                                                        \
	{                                                                         \
		if (!(condition))                                                     \
			fuzz_failed(__FILE__, __LINE__, #condition);                      \
	} while (0)
extern void fuzz_failed(const char *file, int line, const char *condition)
	__attribute__((noreturn));

/*
 * Runs the statement that follows; false if it ended by an ereport(ERROR).
 * Then fuzz_error has its SQLSTATE and message.
 */
#define FUZZ_TRY() (fuzz_guarded = true, setjmp(fuzz_jump) == 0)
extern jmp_buf fuzz_jump;
extern bool fuzz_guarded;

typedef struct FuzzError
{
	int sqlstate;
	char message[2048];
	char detail[2048];
	char hint[2048];
} FuzzError;

extern FuzzError fuzz_error;

/*
 * The one custom string setting that the code has defined.  set: as the server
 * does, check hook, then assign hook; false if refused.
 */
extern const char *fuzz_setting_name;
extern bool fuzz_setting_set(const char *value);
extern const char *fuzz_setting_value(void);

/* Rows that a set-returning function has put out since the last call. */
typedef struct FuzzRow
{
	Datum values[8];
	bool nulls[8];
} FuzzRow;

extern FuzzRow *fuzz_rows;
extern int fuzz_nrows;
extern void fuzz_rows_clear(void);

/* A text datum with these bytes, allocated by itself. */
extern Datum fuzz_text(const char *data, size_t len);

#endif /* FENCING_FUZZ_H */
