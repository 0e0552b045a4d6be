/* The option table: --pal-app=NAME, --pal-move, --pal-same and --pal-dearer come in from the command line, an #SBATCH line or (in slurmstepd) the
 * launch message. */
#include <string.h>

#include "app.h"
#include "args.h"
#include "log.h"
#include "move.h"

static char app_name[PAL_APP_MAX + 1];

static struct spank_option options[] = {
	{
		.name = "pal-app",
		.arginfo = "NAME",
		.usage = "name the application, so that the job gets GPUs that suit it",
		.has_arg = 1,
		.val = 0,
		.cb = pal_args_set_app,
	},
	{
		.name = "pal-move",
		.arginfo = "[SECONDS|SIGNAL@SECONDS]",
		.usage = "the job saves its work and may be restarted on better GPUs; what a restart costs it, or what to send it first",
		.has_arg = 2, /* may be left out */
		.val = 0,
		.cb = pal_args_set_move,
	},
	{
		.name = "pal-same",
		.usage = "the job keeps the GPU model on which it first ran, also when it is restarted",
		.has_arg = 0,
		.val = 0,
		.cb = pal_args_set_word,
	},
	{
		.name = "pal-dearer",
		.usage = "the job may get a GPU model that bills more than the cheapest that it could get",
		.has_arg = 0,
		.val = 0,
		.cb = pal_args_set_word,
	},
	SPANK_OPTIONS_TABLE_END,
};

void pal_args_register(spank_t sp)
{
	for (int i = 0; options[i].name != NULL; i++) {
		if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
			pal_error("can't register --%s", options[i].name);
	}
}

const char *pal_args_app(void)
{
	return (app_name[0] == '\0' ? NULL : app_name);
}

int pal_args_set_app(int val, const char *optarg, int remote)
{
	char sentence[256];
	size_t at;

	(void)val;
	if (pal_app_check(optarg, &at) == PAL_APP_OK) {
		(void)strncpy(app_name, optarg, sizeof(app_name) - 1);
		return (0);
	}

	/* On a node an error would cost the job, or the node: a name that got there all the same is only forgotten. */
	if (remote)
		return (0);

	pal_app_explain(optarg, sentence, sizeof(sentence));
	pal_error("%s", sentence);
	return (-1);
}

int pal_args_set_move(int val, const char *optarg, int remote)
{
	char sentence[256];

	(void)val;
	/* job_submit.lua reads the value, and again judges it; nothing on a node does. An option without a value reaches
	 * an srun in a batch script as "(null)", by its environment: to refuse that would fail the job. */
	if (remote || optarg == NULL || strcmp(optarg, "(null)") == 0 || pal_move_check(optarg) == PAL_MOVE_OK)
		return (0);

	pal_move_explain(optarg, sentence, sizeof(sentence));
	pal_error("%s", sentence);
	return (-1);
}

/* job_submit.lua makes a word of the comment of it. */
int pal_args_set_word(int val, const char *optarg, int remote)
{
	(void)val;
	(void)optarg;
	(void)remote;
	return (0);
}
