/* The name of an application: what --pal-app accepts. */
#ifndef PAL_APP_H
#define PAL_APP_H

#include <stdbool.h>
#include <stddef.h>

#define PAL_APP_MAX 64

enum pal_app_fault {
	PAL_APP_OK = 0,
	PAL_APP_EMPTY,
	PAL_APP_LONG,
	PAL_APP_BYTE,
};

/* Checks name against [A-Za-z0-9][A-Za-z0-9._+-]{0,63}; *at is where the first wrong byte stands. */
enum pal_app_fault pal_app_check(const char *name, size_t *at);

/* Writes a sentence about the fault that quotes nothing the user typed but one byte, in hexadecimal. */
void pal_app_explain(const char *name, char *sentence, size_t size);

#endif
