/* Inputs that go new ways through the plugin, under ASan and UBSan: fuzz DIR SECONDS SEED [KEEP].
 *
 * DIR holds the inputs to begin with. The plugin's files tell by gcc's trace-pc which way an input takes through them: from
 * block to block, and how often (once, twice, four times ...). One that does what none did before is kept, and changed
 * further. Of those the fewest and shortest are written into the directory KEEP. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "args.h"
#include "config.h"
#include "contexts.h"
#include "keepoff.h"
#include "move.h"

#define MOST 512
#define MOST_INPUTS 4096
#define WAYS 65536

struct input {
	size_t size;
	char data[MOST];
};

static const char *const WORDS[] = {
	"=", "@", "B:", "\n", "#", "-", "--", "9999999999", "\x1b[2J", "\xff", "USR", " ", ":", "!", "SIG", "USR1@60", "classes=/",
	"bert = B\n", "sbatch", "--deadline", "--immediate", "-I", "/", "%n", "86400", "3600", "0",
};
#define N(of) (sizeof(of) / sizeof(*(of)))

static struct input inputs[MOST_INPUTS], tried;
static size_t count;
static unsigned char taken[WAYS], known[WAYS]; /* of a way how often in this input; which counts there were, a bit each */
static unsigned short touched[WAYS];
static size_t touches;
static uintptr_t before;
static unsigned long state;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void));
const char *__asan_default_options(void);

void __sanitizer_cov_trace_pc(void)
{
	uintptr_t here = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&pal_app_check; /* the same in each run */
	unsigned short way = (unsigned short)((here ^ (here >> 16)) * 31 ^ (before >> 1));

	before = here * 31;
	if (taken[way] == 0)
		touched[touches++] = way;
	if (taken[way] < 255)
		taken[way]++;
}

/* What is told when it ends before its time; an abort() of tests/stood_in.c's, too. */
static void tell(void)
{
	(void)fprintf(stderr, "the input, in hex: ");
	for (size_t i = 0; i < tried.size; i++)
		(void)fprintf(stderr, "%02x", (unsigned char)tried.data[i]);
	(void)fprintf(stderr, "\n");
}

const char *__asan_default_options(void)
{
	return ("handle_abort=1");
}

/* One input: as an option's value, as a word of plugstack.conf, as a list of classes, as a command line. */

static void write_file(const char *path, const char *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
		exit(2);
}

static void try_one(const char *data, size_t size, const char *file, bool as_file)
{
	char *text = malloc(size + 1), *bare = malloc(size > 0 ? size : 1), classes[PATH_MAX], app[] = "bert", sentence[256];
	char *told[] = { classes }, *words[] = { classes, text };
	struct pal_config config = { 0 };
	size_t begin;

	while (touches > 0)
		taken[touched[--touches]] = 0;
	before = 0;
	memcpy(text, data, size);
	memcpy(bare, data, size); /* of the exact length: a read behind its end shows */
	text[size] = '\0';
	(void)snprintf(classes, sizeof(classes), "classes=%s", file);
	for (int remote = 0; remote < 2; remote++) {
		(void)pal_args_set_app(0, text, remote);
		(void)pal_args_set_move(0, text, remote);
		(void)pal_args_set_word(0, text, remote);
	}
	pal_app_explain(text, sentence, sizeof(sentence));
	pal_move_explain(text, sentence, sizeof(sentence));
	(void)pal_slurmstepd_init(NULL, 0, NULL);
	(void)pal_slurmd_init(NULL, 2, words);
	(void)pal_config_parse(&config, 1, words + 1, sentence, sizeof(sentence));
	begin = size % 2;
	(void)pal_keepoff_in(bare, size, &begin, size % 9);
	if (as_file && memchr(data, '=', size) != NULL) {
		write_file(file, data, size);
		(void)pal_args_set_app(0, app, 0);
		(void)pal_slurmstepd_user_init(NULL, 1, told);
	}
	free(bare);
	free(text);
}

/* Whether the last input did what none did before, which is then known. */
static bool is_new(void)
{
	bool found = false;

	for (size_t i = 0; i < touches; i++) {
		unsigned char times = taken[touched[i]], bit = 1;

		for (unsigned int most = 1; most < 128 && times > most; most *= 2)
			bit = (unsigned char)(bit * 2);
		if ((known[touched[i]] & bit) == 0) {
			known[touched[i]] |= bit;
			found = true;
		}
	}
	return (found);
}

/* Inputs */

static unsigned int draw(unsigned int below)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (unsigned int)(state >> 33) % below;
}

static void put(struct input *of, size_t at, const char *data, size_t size)
{
	if (of->size + size > MOST)
		return;
	memmove(of->data + at + size, of->data + at, of->size - at);
	memcpy(of->data + at, data, size);
	of->size += size;
}

static void change(struct input *of)
{
	const char *word = WORDS[draw(N(WORDS))];
	size_t at = draw((unsigned int)of->size + 1), cut = draw(8);
	const struct input *other = &inputs[draw((unsigned int)count)];
	char run[200];

	switch (draw(6)) {
	case 0:
		if (of->size > 0)
			of->data[at % of->size] = (char)draw(256);
		return;
	case 1:
		if (at + cut > of->size)
			cut = of->size - at;
		memmove(of->data + at, of->data + at + cut, of->size - at - cut);
		of->size -= cut;
		return;
	case 2:
		memset(run, word[0], sizeof(run));
		put(of, at, run, draw(sizeof(run)));
		return;
	case 3:
		put(of, at, "", 1); /* the end of a word */
		return;
	case 4:
		put(of, at, other->data, other->size);
		return;
	default:
		put(of, at, word, strlen(word));
	}
}

/* Half of the time one of the last that were found. */
static size_t one_of(void)
{
	size_t late = count < 16 ? count : 16;

	return (draw(2) ? draw((unsigned int)count) : count - 1 - draw((unsigned int)late));
}

static void load(const char *directory)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *found = opendir(directory);

	if (found == NULL)
		exit(2);
	while ((entry = readdir(found)) != NULL) {
		ssize_t size;
		int fd;

		(void)snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		fd = entry->d_name[0] == '.' ? -1 : open(path, O_RDONLY);
		if (fd < 0 || count == MOST_INPUTS)
			continue;
		size = read(fd, inputs[count].data, MOST);
		inputs[count++].size = size > 0 ? (size_t)size : 0;
		(void)close(fd);
	}
	(void)closedir(found);
}

static int by_size(const void *one, const void *other)
{
	const struct input *a = one, *b = other;

	return (a->size != b->size ? (a->size > b->size) - (a->size < b->size) : memcmp(a->data, b->data, a->size));
}

static void keep(const char *directory, const char *file)
{
	char path[PATH_MAX];

	memset(known, 0, sizeof(known));
	qsort(inputs, count, sizeof(*inputs), by_size);
	for (size_t i = 0; i < count; i++) {
		uint32_t name = 2166136261u;

		try_one(inputs[i].data, inputs[i].size, file, true);
		if (!is_new())
			continue;
		for (size_t at = 0; at < inputs[i].size; at++)
			name = (name ^ (unsigned char)inputs[i].data[at]) * 16777619u;
		(void)snprintf(path, sizeof(path), "%s/%08x", directory, name);
		write_file(path, inputs[i].data, inputs[i].size);
	}
}

int main(int argc, char **argv)
{
	char file[] = "/tmp/pal-fuzz-XXXXXX";
	size_t ways = 0, first;
	unsigned long runs = 0;
	clock_t end;
	int fd = mkstemp(file);

	if (argc < 4 || fd < 0 || close(fd) != 0)
		return (2);
	load(argv[1]);
	if (count == 0)
		return (2);
	__sanitizer_set_death_callback(tell);
	end = clock() + (clock_t)(atof(argv[2]) * CLOCKS_PER_SEC);
	state = strtoul(argv[3], NULL, 10);
	for (first = count; runs < first || clock() < end; runs++) {
		tried = inputs[runs < first ? runs : one_of()];
		for (unsigned int changes = runs < first ? 0 : 1 + draw(5); changes > 0; changes--)
			change(&tried);
		try_one(tried.data, tried.size, file, runs < first || draw(16) == 0); /* files take their time */
		if (is_new() && runs >= first && count < MOST_INPUTS)
			inputs[count++] = tried;
	}
	for (size_t way = 0; way < WAYS; way++)
		ways += known[way] != 0;
	printf("%lu inputs, %zu ways, %zu kept of them\n", runs, ways, count);
	if (argc > 4)
		keep(argv[4], file);
	(void)unlink(file);
	return (0);
}
