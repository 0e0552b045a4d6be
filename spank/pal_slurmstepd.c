/* In slurmstepd: the tasks get PAL_APP, and PAL_CLASS when the site's list knows the application. */
#include "args.h"
#include "classes.h"
#include "config.h"
#include "contexts.h"
#include "log.h"

int pal_slurmstepd_init(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	pal_args_register(sp);
	return (0);
}

/* Runs once per step on each node, with the user's rights, before the tasks are made. */
int pal_slurmstepd_user_init(spank_t sp, int ac, char **av)
{
	const char *app = pal_args_app();
	char class_name[PAL_APP_MAX + 1];
	struct pal_config config;
	char sentence[256];

	if (app == NULL)
		return (0);
	if (spank_setenv(sp, "PAL_APP", app, 1) != ESPANK_SUCCESS)
		pal_verbose("can't set PAL_APP");

	(void)pal_config_parse(&config, ac, av, sentence, sizeof(sentence)); /* slurmd has already told */
	if (config.classes != NULL && pal_classes_find(config.classes, app, class_name))
		(void)spank_setenv(sp, "PAL_CLASS", class_name, 1);
	else
		(void)spank_unsetenv(sp, "PAL_CLASS"); /* an outer step's class may belong to another app */
	return (0);
}
