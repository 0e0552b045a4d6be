/* The site's list of which application is in which class; only a hint for the job itself. */
#ifndef PAL_CLASSES_H
#define PAL_CLASSES_H

#include <stdbool.h>

#include "app.h"

/* Finds the last "app = class" line of app. False when the file can't be read, is odd, or has none. */
bool pal_classes_find(const char *path, const char *app, char class_name[PAL_APP_MAX + 1]);

#endif
