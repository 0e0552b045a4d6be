/* The arguments that the plugin gets from its line in plugstack.conf. */
#ifndef PAL_CONFIG_H
#define PAL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct pal_config {
	const char *classes; /* file with "app = class" lines, or NULL; points into av */
};

/* Reads strict key=value words. False, with a sentence, at the first that can't be understood. */
bool pal_config_parse(struct pal_config *config, int ac, char **av, char *sentence, size_t size);

#endif
