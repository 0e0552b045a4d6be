--[[ Tries job_submit.lua and cli_filter.lua outside Slurm, on tables that mimic job_desc as the real releases were seen to fill it
(docs/decisions/0003-tagging-and-leases.md).
In: the directory of a copy of job_submit.lua and cli_filter.lua (arg[1], writable), vectors.txt (arg[2]). Out: "ok NAME" or
"not ok NAME: WHY" lines; exit status 1 when one was not. ]]

local dir, vectors = arg[1], arg[2]
local logged, told = {}, {}
slurm = {
	SUCCESS = 0,
	ERROR = -1,
	log_info = function(...) logged[#logged + 1] = string.format(...) end,
	log_user = function(...) told[#told + 1] = string.format(...) end,
}

local function write(name, text)
	local file = assert(io.open(dir .. "/" .. name, "w"))
	file:write(text)
	file:close()
end

local function read(name)
	local file = assert(io.open(dir .. "/" .. name))
	local text = file:read("*a")
	file:close()
	return text
end

local STANDARD = "partitions = gpu\nlease = 20\nslots = yes\nmodels = a100,v100\n"
local PARTITIONS = { gpu = { flag_default = 1 }, cpu = { flag_default = 0 } }

local function fresh(settings)
	write("pal_lua.conf", settings or STANDARD)
	logged = {}
	dofile(dir .. "/job_submit.lua")
end

-- What 24.11 hands over for `sbatch --gres=gpu:2`.
local function job(fields)
	local j = {
		begin_time = 0, immediate = 0, min_nodes = 4294967294, max_nodes = 4294967294, user_id = 1000,
		het_job_offset = 4294967294, spank_job_env_size = 0, spank_job_env = {}, environment = {}, script = "#!/bin/sh\n",
		tres_per_node = "gres/gpu:2",
	}
	for key, value in pairs(fields or {}) do
		j[key] = value
	end
	return j
end

local function submit(fields, partitions)
	local j = job(fields)
	assert(slurm_job_submit(j, partitions or PARTITIONS, 1000) == slurm.SUCCESS)
	return j
end

local function same(got, wanted)
	if got ~= wanted then
		error(("got <%s>, wanted <%s>"):format(tostring(got), tostring(wanted)), 2)
	end
end

local function leased(j)
	return type(j.admin_comment) == "string" and j.admin_comment:match("^pal1{b=%d+") ~= nil and j.begin_time > os.time()
end

local function unescape(text)
	return (text:gsub("\\(x?)(%x?%x?)", function(x, hex)
		if x == "x" then
			return string.char(tonumber(hex, 16))
		end
		return nil
	end):gsub("\\\\", "\\"))
end

local cases = {}

function cases.names_agree_with_the_shared_vectors()
	fresh()
	local count = 0
	for line in io.lines(vectors) do
		local wanted, text = line:match("^name\t(%a+)\t(.*)$")
		if wanted then
			count = count + 1
			if pal.is_app(unescape(text)) ~= (wanted == "yes") then
				error("judged otherwise: " .. line)
			end
		end
		local app, before, after = line:match("^tag\t([^\t]*)\t([^\t]*)\t([^\t]*)$")
		if app then
			count = count + 1
			same(pal.tagged(unescape(before), app), unescape(after))
		end
		wanted, text = line:match("^move\t(%a+)\t(.*)$")
		if wanted then
			count = count + 1
			if pal.is_move(unescape(text)) ~= (wanted == "yes") then
				error("judged otherwise: " .. line)
			end
		end
		local value, was, is = line:match("^moved\t([^\t]*)\t([^\t]*)\t([^\t]*)$")
		if value then
			count = count + 1
			same(pal.with_move(unescape(was), value), unescape(is))
		end
	end
	assert(count > 120, "no vectors")
	same(pal.is_app("a\0b"), false)
end

function cases.the_option_becomes_a_word_of_the_comment()
	fresh()
	local env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" }
	same(submit({ spank_job_env = env, spank_job_env_size = 1 }).comment, "app:resnet")
	same(submit({ spank_job_env = env, spank_job_env_size = 1, comment = "mine app:bert too" }).comment, "mine app:resnet too")
	same(submit({ spank_job_env = env, spank_job_env_size = 1, tres_per_node = "" }).comment, "app:resnet")
end

function cases.what_a_job_prefers_stands_in_its_mark()
	assert(submit({ prefer = "a100&rack1" }).admin_comment:find(";F=a100&rack1", 1, true))
	assert(not submit({ prefer = "a;b" }).admin_comment:find("F=", 1, true))
	assert(not submit({}).admin_comment:find("F=", 1, true))
end

function cases.options_without_a_value_become_words_once()
	local function with(fields, ...)
		fields.spank_job_env, fields.spank_job_env_size = { [0] = ... }, select("#", ...)
		fields.spank_job_env[1] = select(2, ...)
		return submit(fields).comment
	end
	same(with({}, "_SLURM_SPANK_OPTION_pal_pal_same=(null)"), "pal:same")
	same(with({ comment = "mine pal:dearer" }, "_SLURM_SPANK_OPTION_pal_pal_dearer="), "mine pal:dearer")
	local both = with({ comment = "x" }, "_SLURM_SPANK_OPTION_pal_pal_same=", "_SLURM_SPANK_OPTION_pal_pal_dearer=")
	assert(both == "x pal:same pal:dearer" or both == "x pal:dearer pal:same", both)
end

function cases.the_option_to_be_moved_becomes_a_word_and_stands_in_the_mark()
	fresh()
	local function with(value, fields)
		fields = fields or {}
		fields.spank_job_env, fields.spank_job_env_size = { [0] = "_SLURM_SPANK_OPTION_pal_pal_move=" .. value }, 1
		return submit(fields)
	end
	same(with("").comment, "pal:move")
	same(with("(null)").comment, "pal:move")
	same(with("USR1@60", { comment = "mine pal:move=5" }).comment, "mine pal:move=USR1@60")
	same(with("KILL@5", { comment = "mine" }).comment, "mine")
	assert(with("120").admin_comment:find(";m=1}", 1, true))
	assert(not with("0").admin_comment:find("m=", 1, true))
	assert(submit({ comment = "x pal:move" }).admin_comment:find(";m=1}", 1, true))
	assert(not submit({ comment = "pal:moves" }).admin_comment:find("m=", 1, true))
	assert(submit({ requeue = 1, comment = "pal:move=9 x" }).admin_comment:find(";q=1;m=1}", 1, true))
	assert(submit({ requeue = 0 }).admin_comment:find(";q=0}", 1, true))
	assert(not submit({ requeue = 65534 }).admin_comment:find("q=", 1, true))
end

function cases.a_comment_that_would_grow_too_long_is_left_alone_and_the_user_told()
	fresh()
	told = {}
	local env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" }
	local fits, full = ("y"):rep(1024 - #" app:resnet"), ("y"):rep(1024 - #" app:resnet" + 1)
	same(submit({ comment = fits, spank_job_env = env, spank_job_env_size = 1 }).comment, fits .. " app:resnet")
	same(#told, 0)
	same(submit({ comment = full, spank_job_env = env, spank_job_env_size = 1 }).comment, full)
	same(#told, 1)
	local features = ("f"):rep(1020)
	same(submit({ features = features, tres_per_node = "gres/gpu:a100:2" }).features, features)
end

function cases.a_forged_option_is_ignored()
	fresh()
	local env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=$(id) x" }
	same(submit({ spank_job_env = env, spank_job_env_size = 1, comment = "c" }).comment, "c")
end

function cases.a_gpu_job_gets_a_lease_and_a_mark()
	fresh()
	local before = os.time()
	local j = submit({ partition = "gpu", features = "rack1", min_nodes = 2, max_nodes = 4 })
	assert(j.begin_time >= before + 20 and j.begin_time <= os.time() + 20)
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2;N=2-4;P=gpu;f=rack1}"):format(j.begin_time))
end

function cases.unset_values_are_left_out_of_the_mark()
	fresh()
	local j = submit({ min_nodes = 1, max_nodes = 0, tres_per_node = false })
	same(j.admin_comment, nil)
	j = submit({ tres_per_job = "gres:gpu:4", tres_per_node = "", min_nodes = 2 })
	same(j.admin_comment, ("pal1{b=%d;j=gres:gpu:4;N=2-}"):format(j.begin_time))
end

function cases.the_users_own_node_list_is_marked()
	fresh()
	local j = submit({ req_nodes = "n[1-2]" })
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2;r=1}"):format(j.begin_time))
end

function cases.a_job_without_a_script_is_marked()
	fresh()
	local j = submit({ script = false })
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2;i=1}"):format(j.begin_time))
end

function cases.the_site_s_own_words_stand_behind_the_mark_of_who_waits()
	local said = "waits for pal-slurm (BeginTime) to choose GPUs: palctl why JOBID"
	fresh("tell = " .. said .. "\n")
	local j = submit({ admin_comment = "JS1:abc" })
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2} %s JS1:abc"):format(j.begin_time, said))
	for _, bad in ipairs({ "pal1{b=1}", ("x"):rep(121), "a\27[31m", "gr\195\188n" }) do
		fresh("tell = " .. bad .. "\n")
		same(submit().admin_comment, nil) -- a fault in the file: jobs are left alone
		assert(logged[1] and logged[1]:find("tell can't have this value", 1, true))
	end
end

function cases.what_stood_in_the_admin_comment_stays_behind_the_mark()
	fresh()
	local j = submit({ admin_comment = "JS1:abc" })
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2} JS1:abc"):format(j.begin_time))
end

function cases.jobs_without_gpus_are_left_alone()
	fresh()
	for _, tres in ipairs({ "", "gres/shard:2", "gres:mps:50", "gres/gpu:0", "license:gpus:1", "cpu=2", "gres/gpux:1" }) do
		local j = submit({ tres_per_node = tres })
		if j.admin_comment ~= nil or j.begin_time ~= 0 then
			error("leased: " .. tres)
		end
	end
end

function cases.every_form_of_a_gpu_request_is_seen()
	fresh("")
	for _, tres in ipairs({ "gres/gpu:2", "gres:gpu:2", "gpu:2", "gpu", "gres/gpu", "gres/gpu=2", "cpu:1,gres/gpu:1",
			"cpu=1,gres/gpu=1", "gres:gpu:a100:2", "gres/gpu:a100", "gres:gpu:a100:2K", "gres/nic:1,gres/gpu:1" }) do
		for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }) do
			if not leased(submit({ tres_per_node = "", [field] = tres })) then
				error("not leased: " .. field .. " " .. tres)
			end
		end
	end
end

function cases.parts_of_two_gpu_types_in_one_job_are_refused_and_the_user_told_why()
	fresh()
	for _, two in ipairs({ "gres/shard:g0:1,gres/shard:g1:1", "gres:shard:g0:1,gres:shard:g1", "shard:a=1,gpu:1,shard:b=2",
			"gres/mps:a100:50,gres/mps:v100:50" }) do
		told = {}
		local j = job({ tres_per_node = two, comment = "mine" })
		same(slurm_job_submit(j, PARTITIONS, 1000), slurm.ERROR)
		same(j.comment, "mine")
		same(#told, 1)
		assert(told[1]:match("^pal: %a+ of two GPU types in one job"), told[1])
	end
	local apart = job({ tres_per_node = "gres/shard:g0:1", tres_per_task = "gres/shard:g1:1" })
	same(slurm_job_submit(apart, PARTITIONS, 1000), slurm.ERROR)
	for _, one in ipairs({ "gres/shard:2", "gres/shard", "gres/shard:g1:1", "gres/shard:g1:1,gres/shard:g1:1", "gres:mps:50",
			"shard:2K", "gres/gpu:a100:1,gres/gpu:v100:1", "gres/shard:g0:1,gres/mps:g1:1" }) do
		submit({ tres_per_node = one })
	end
end

local FIELDS = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }
local SHARDS = { "gres/shard:2", "gres:shard:1", "shard", "gres/shard", "shard=1", "gres/shard:g1:1", "shard:g1", "shard:2K",
	"license:x,gres/shard:1", "cpu=1,gres/shard:g1=1", "gres/gpu:1,gres/shard:1" }
local NO_SHARDS = { "", "gres/gpu:2", "gres/gpu:shard:1", "license:shard:1", "gres/shards:1", "gres/mps:50", "gres/shard:0", "gres/shard=00" }

function cases.where_shards_are_pald_s_who_asks_for_some_is_refused_and_told_what_to_say_instead()
	fresh(STANDARD .. "shards = pald\n")
	for _, field in ipairs(FIELDS) do
		for _, text in ipairs(SHARDS) do
			told = {}
			local j = job({ tres_per_node = "", [field] = text, comment = "mine" })
			if slurm_job_submit(j, PARTITIONS, 1000) ~= slurm.ERROR then
				error("let in: " .. field .. " " .. text)
			end
			same(j.comment .. #told, "mine1")
			assert(told[1]:find("%-%-gres=gpu:1") and told[1]:find("%-%-comment=pal:share"), told[1])
		end
		for _, text in ipairs(NO_SHARDS) do
			submit({ tres_per_node = "", [field] = text })
		end
	end
	assert(leased(submit({ comment = "pal:share" })), "it asks for a GPU, as it should")
	submit({ partition = "cpu", tres_per_node = "gres/shard:g1:1" }) -- nobody's business here
	for _, settings in ipairs({ "", "shards = users\n", "shards =\n", "shards = pald\nenabled = no\n" }) do
		fresh(STANDARD .. settings)
		submit({ tres_per_node = "gres/shard:g1:1" })
	end
end

function cases.every_type_in_every_field_of_a_request_is_no_reason_to_refuse_a_job()
	fresh(STANDARD .. "shards = pald\n")
	for _, field in ipairs(FIELDS) do
		for _, odd in ipairs({ 7, -1, 0 / 0, 2 ^ 64, true, false, {}, { "shard" }, print, io.stdout, ("shard"):rep(3), "\0shard:1" }) do
			same(slurm_job_submit(job({ [field] = odd }), PARTITIONS, 1000), slurm.SUCCESS)
			same(slurm_job_modify({ [field] = odd }, { user_id = 1000 }, PARTITIONS, 1000), slurm.SUCCESS)
			same(slurm_job_modify({ tres_per_node = "gres/gpu:1" }, { [field] = odd }, PARTITIONS, 1000), slurm.SUCCESS)
		end
	end
	for _, odd in ipairs({ false, 7, "x", print }) do
		same(slurm_job_modify(odd or nil, odd or nil, odd or nil, odd or nil), slurm.SUCCESS)
	end
end

local function modified(edit, record, uid)
	told = {}
	return slurm_job_modify(edit, record or { user_id = 1000 }, PARTITIONS, uid or 1000) == slurm.SUCCESS and #told == 0
end

function cases.an_admins_own_comment_stands_behind_the_mark_of_a_job_that_waits()
	fresh(STANDARD)
	local mark = "pal1{b=7;n=gres/gpu:2}"
	local function becomes(text, stood, state)
		local edit = { admin_comment = text }
		assert(modified(edit, { user_id = 1000, admin_comment = stood, job_state = state or 0 }, 0))
		return edit.admin_comment
	end
	same(becomes("energy=17", mark), mark .. " energy=17")
	same(becomes("energy=17", mark .. " before"), mark .. " energy=17")
	same(becomes("", mark), mark)
	same(becomes("+=more", mark), "+=more")
	same(becomes("pal1{b=9}", mark), "pal1{b=9}")
	same(becomes("energy=17", mark, 1), "energy=17") -- it runs
	same(becomes("energy=17", "before"), "energy=17")
	same(becomes("energy=17", nil), "energy=17")
	same(becomes(("x"):rep(1020), mark), ("x"):rep(1020)) -- both would be too long for Slurm
	same(becomes(nil, mark), nil)
	same(becomes(7, 7), 7)
end

function cases.a_users_edit_is_refused_where_his_request_would_have_been()
	for _, field in ipairs(FIELDS) do
		for _, text in ipairs(SHARDS) do
			fresh(STANDARD .. "shards = pald\n")
			assert(not modified({ [field] = text }), text)
			assert(modified({ [field] = text }, nil, 0) and modified({ [field] = text }, nil, 990), "pald's own: " .. text)
			assert(modified({ [field] = text }, { user_id = 1000, partition = "cpu" }), text)
			fresh()
			assert(modified({ [field] = text }), text)
		end
		for _, text in ipairs(NO_SHARDS) do
			assert(modified({ [field] = text }, { user_id = 1000, tres_per_node = "gres/shard:g1:1" }), text)
		end
	end
	local two = { tres_per_node = "gres/shard:g0:1,gres/shard:g1:1" }
	assert(not modified(two) and not modified(two, nil, 0))
	local has_one = { user_id = 1000, tres_per_node = "gres/shard:g0:1" }
	assert(not modified({ tres_per_task = "gres/shard:g1:1" }, has_one, 0))
	assert(modified({ tres_per_node = "", tres_per_task = "gres/shard:g1:1" }, has_one, 0), "in place of the other")
	assert(modified({ tres_per_node = "gres/shard:g1:1" }, has_one, 0), "moved")
	assert(modified({ begin_time = 5 }, { user_id = 1000, tres_per_node = "gres/shard:g0:1,gres/shard:g1:1" }))
end

function cases.who_is_to_start_on_a_part_of_a_gpu_does_not_take_it_to_another_node()
	local unset = { min_nodes = 4294967294, max_nodes = 4294967294, time_limit = 9, comment = "app:a" }
	local pinned = { user_id = 1000, partition = "gpu", tres_per_node = "gres/shard:g0:1", req_nodes = "n1" }
	local whole = { user_id = 1000, partition = "gpu", tres_per_node = "gres/gpu:g0:1", req_nodes = "n1" }
	for _, edit in ipairs({ { req_nodes = "n2" }, { req_nodes = "" }, { min_nodes = 2 }, { max_nodes = 2 } }) do
		fresh(STANDARD .. "shards = pald\n")
		assert(not modified(edit, pinned))
		assert(told[1]:find("scontrol hold", 1, true))
		assert(modified(edit, pinned, 0) and modified(edit, pinned, 990), "pald's own")
		assert(modified(edit, whole) and modified(edit, { user_id = 1000, partition = "cpu", tres_per_node = "shard:1" }))
		fresh()
		assert(modified(edit, pinned), "who may ask for shards may ask for them there")
	end
	fresh(STANDARD .. "shards = pald\n")
	assert(modified(unset, pinned) and modified({ exc_nodes = "n1" }, pinned) and modified({ priority = 0 }, pinned))
end

function cases.only_managed_partitions_count()
	fresh()
	assert(leased(submit({ partition = "cpu,gpu" })))
	assert(not leased(submit({ partition = "cpu" })))
	assert(leased(submit({})), "the default partition is managed")
	assert(not leased(submit({}, { gpu = { flag_default = 0 }, cpu = { flag_default = 1 } })))
	fresh("partitions =\n")
	assert(leased(submit({ partition = "cpu" })), "no list: all are managed")
end

function cases.a_begin_time_of_the_users_own_is_kept_in_the_mark()
	fresh()
	local now = os.time()
	local soon = submit({ begin_time = now + 5 })
	same(soon.admin_comment, ("pal1{b=%d;u=%d;n=gres/gpu:2}"):format(soon.begin_time, now + 5))
	assert(soon.begin_time >= now + 20, "it jumps no queue")
	for _, late in ipairs({ 4294967293, 4294967294, 4294967295, 5000000000, 253402300799 }) do
		same(submit({ begin_time = late }).begin_time, late)
		same(submit({ begin_time = late }).admin_comment, ("pal1{b=%.0f;u=%.0f;n=gres/gpu:2}"):format(late, late))
	end
	for _, never in ipairs({ 253402300800, 2 ^ 62, 2 ^ 63, 1 / 0 }) do
		local j = submit({ begin_time = never })
		same(j.begin_time, never)
		same(j.admin_comment, nil)
	end
	local far = submit({ begin_time = now + 4000 })
	same(far.begin_time, now + 4000)
	same(far.admin_comment, ("pal1{b=%d;u=%d;n=gres/gpu:2}"):format(now + 4000, now + 4000))
end

function cases.jobs_that_a_lease_would_hurt_are_left_alone()
	fresh("preempt_qos = high, urgent\n")
	local alone = {
		immediate = { immediate = 1 },
		scrontab = { cron_job = true },
		reservation = { reservation = "maint" },
		qos = { qos = "urgent" },
		default_qos = { default_qos = "high" },
		deadline_line = { script = "#!/bin/sh\n# x\n\n#SBATCH -n1 --deadline=now+1hour\nsrun x\n" },
		short_deadline_line = { script = "#!/bin/sh\n#SBATCH --dead now\n" },
		tasks_per_gpu = { ntasks_per_tres = 1 },
		tasks_per_gpu_by_its_other_name = { ntasks_per_gpu = 2, ntasks_per_tres = 65534 },
		told_by_the_plugin = { spank_job_env = { [0] = "SPANK_PAL_KEEP_OFF=immediate" }, spank_job_env_size = 1 },
	}
	for name, fields in pairs(alone) do
		local j = submit(fields)
		if j.admin_comment ~= nil or j.begin_time ~= (fields.begin_time or 0) then
			error("leased: " .. name)
		end
	end
	assert(leased(submit({ begin_time = os.time() - 1 })), "a begin time in the past asks for nothing")
	assert(leased(submit({ comment = "pal:off" })), "nobody jumps the queue")
	assert(leased(submit({ priority = 0 })), "a held job is leased")
	assert(leased(submit({ script = "#!/bin/sh\necho\n#SBATCH --deadline=now\n" })), "not an option: after a command")
	assert(leased(submit({ script = "#!/bin/sh\n#SBATCH --dependency=afterok:1\n" })))
	assert(leased(submit({ qos = "normal" })))
	assert(leased(submit({ ntasks_per_tres = 65534, ntasks_per_gpu = 65534 })), "not set")
end

function cases.models_become_features_where_slots_are_on()
	fresh()
	local j = submit({ tres_per_node = "gres/gpu:a100:2" })
	same(j.tres_per_node, "gres/gpu:2")
	same(j.features, "a100")
	same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2;f=a100}"):format(j.begin_time))
	same(submit({ tres_per_node = "gres:gpu:v100" }).tres_per_node, "gres:gpu:1")
	same(submit({ tres_per_node = "gpu:v100:3" }).tres_per_node, "gpu:3")
	same(submit({ tres_per_node = "", tres_per_task = "cpu:2,gres/gpu:a100:1" }).tres_per_task, "cpu:2,gres/gpu:1")
	same(submit({ tres_per_node = "", tres_per_job = "gres/gpu=a100" }).features, nil)
	same(submit({ tres_per_node = "", tres_per_socket = "gres/gpu:a100=4" }).tres_per_socket, "gres/gpu:4")
	same(submit({ tres_per_node = "gres/gpu:h100:2" }).tres_per_node, "gres/gpu:h100:2")
	same(submit({ tres_per_node = "gres/gpu:g1:1" }).tres_per_node, "gres/gpu:g1:1")
	same(submit({ partition = "cpu", tres_per_node = "gres/gpu:a100:2" }).tres_per_node, "gres/gpu:a100:2")
	fresh("slots = no\nmodels = a100\n")
	same(submit({ tres_per_node = "gres/gpu:a100:2" }).tres_per_node, "gres/gpu:a100:2")
end

function cases.a_request_that_needs_its_types_keeps_them()
	fresh()
	same(submit({ tres_per_node = "gres/gpu:a100:1,gres/gpu:v100:1" }).tres_per_node, "gres/gpu:a100:1,gres/gpu:v100:1")
	local j = submit({ tres_per_node = "gres/gpu:a100:1", tres_per_job = "gres/gpu:v100:2" })
	same(j.tres_per_node .. j.tres_per_job, "gres/gpu:a100:1gres/gpu:v100:2")
	j = submit({ tres_per_node = "gres/gpu:a100:1", tres_per_job = "gres/gpu:a100:2" })
	same(j.tres_per_node .. j.tres_per_job .. j.features, "gres/gpu:1gres/gpu:2a100")
end

function cases.features_are_joined_without_changing_their_meaning()
	fresh()
	for before, after in pairs({ rack1 = "rack1&a100", a100 = "a100", ["a100&x"] = "a100&x", ["a|b"] = "(a|b)&a100" }) do
		same(submit({ features = before, tres_per_node = "gres/gpu:a100:2" }).features, after)
	end
	for _, odd in ipairs({ "[rack1|rack2]", "rack1*2&rack2*2", "(a|b)", "a b", "a,b" }) do
		local j = submit({ features = odd, tres_per_node = "gres/gpu:a100:2" })
		same(j.features .. j.tres_per_node, odd .. "gres/gpu:a100:2")
	end
end

function cases.the_batch_jobs_environment_follows()
	fresh()
	local j = submit({ tres_per_node = "", tres_per_job = "gres/gpu:a100:4", environment = {
		SLURM_GPUS = "a100:4", SLURM_GPUS_PER_NODE = "a100", SLURM_TRES_PER_TASK = "cpu=1,gres/gpu:a100=1",
		SLURM_GPUS_PER_TASK = "2", SLURM_GRES = "gpu:v100:1", OTHER = "a100:4" } })
	same(j.environment.SLURM_GPUS, "4")
	same(j.environment.SLURM_GPUS_PER_NODE, "1")
	same(j.environment.SLURM_TRES_PER_TASK, "cpu=1,gres/gpu:1")
	same(j.environment.SLURM_GPUS_PER_TASK, "2")
	same(j.environment.SLURM_GRES, "gpu:1")
	same(j.environment.OTHER, "a100:4")
	j = submit({ script = false, tres_per_node = "gres/gpu:a100:1", environment = setmetatable({}, {
		__index = function() error("asked for the environment of a job that has none") end }) })
	same(j.features, "a100")
end

function cases.the_components_of_a_het_job_share_one_lease()
	fresh()
	local real, now = os.time, os.time()
	os.time = function() return now end
	local leader = submit({ het_job_offset = 0 })
	now = now + 2
	local second = submit({ het_job_offset = 1 })
	local stranger = submit({ het_job_offset = 1, user_id = 1001 })
	os.time = real
	same(second.begin_time, leader.begin_time)
	same(stranger.begin_time, now + 20)
end

function cases.no_lease_when_pald_shows_no_sign_of_life()
	local settings = "alive_file = " .. dir .. "/alive\n"
	fresh(settings)
	os.remove(dir .. "/alive")
	assert(not leased(submit()), "no file")
	for text, wanted in pairs({
		[("%d\n"):format(os.time())] = true, [("%d"):format(os.time() - 50)] = true,
		[("%d"):format(os.time() - 70)] = false, [("%d"):format(os.time() + 70)] = false,
		[""] = false, ["nonsense"] = false, ["nan"] = false,
	}) do
		write("alive", text)
		same(leased(submit()), wanted)
	end
end

function cases.pald_says_how_long_a_lease_is_where_the_settings_do_not()
	local function length(settings, said)
		fresh(settings .. "alive_file = " .. dir .. "/alive\n")
		local now, real = os.time(), os.time
		os.time = function() return now end
		write("alive", ("%d 0000abcd\n%s"):format(now, said))
		local j = submit()
		os.time = real
		return j.begin_time - now
	end
	same(length("", "lease 45\nend\n"), 45)
	same(length("lease =\n", "preempt high\nlease 600\nend\n"), 600)
	same(length("lease = 7\n", "lease 45\nend\n"), 7)
	for _, bad in ipairs({ "", "lease 45\n", "lease 601\nend\n", "lease 0\nend\n", "lease -5\nend\n", "lease 1e9\nend\n" }) do
		same(length("", bad), 20)
	end
end

-- A file as pal_slurm/daemon/leases/alive.py writes it; `taken`: seconds from now on, for this file was read just now.
local function publish(lines, age, missing_end)
	local now = os.time()
	local text = ("%d 0000abcd\n"):format(now)
	for _, line in ipairs(lines) do
		text = text .. line:gsub("TAKEN", ("%d"):format(now - age)):gsub("TILL", ("%d"):format(now + 5)) .. "\n"
	end
	write("alive", text .. (missing_end and "" or "end\n"))
end

-- Submissions at a time of the test's own: as if job_submit.lua had been read a minute ago.
local function later(settings, act)
	local real, ahead = os.time, 0
	fresh((settings or "") .. "alive_file = " .. dir .. "/alive\nwake_file = " .. dir .. "/wake\n")
	os.time = function() return real() + ahead end
	ahead = 60
	local fine, why = pcall(act, function(seconds) ahead = ahead + seconds end)
	os.time = real
	if not fine then
		error(why, 0)
	end
end

local function passed(j)
	return type(j.admin_comment) == "string" and j.admin_comment:match("^pal1{b=%d+") ~= nil and j.begin_time == os.time()
end

function cases.where_nothing_better_can_come_a_job_passes_with_a_mark_and_no_lease()
	later("", function()
		write("wake", "")
		publish({ "pass all TAKEN TILL" }, 1)
		local j = submit({ comment = "app:resnet" })
		assert(passed(j), "it was leased")
		same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2}"):format(os.time()))
		same(read("wake"), "")
	end)
end

function cases.a_job_that_may_share_its_gpu_is_leased_for_pald_has_to_ask_for_it()
	later("", function()
		publish({ "pass all TAKEN TILL" }, 1)
		local j = submit({ comment = "app:net pal:share" })
		assert(leased(j))
		assert(j.admin_comment:find(";h=u}", 1, true), "where users ask for shards a stranger could come to it")
	end)
	later("shards = pald\n", function()
		publish({ "pass all TAKEN TILL" }, 1)
		local j = submit({ comment = "app:net pal:share" })
		assert(leased(j))
		assert(j.admin_comment:find(";h=1}", 1, true))
		for field, value in pairs({ tres_freq = "gpu:low", pn_min_memory = 0, shared = 1 }) do
			assert(not submit({ comment = "pal:share", [field] = value }).admin_comment:find("h=1", 1, true), field)
		end
	end)
	later("", function()
		publish({ "pass all TAKEN TILL" }, 1)
		local j = submit({ comment = "app:net pal:shared xpal:share" })
		assert(passed(j))
		assert(not j.admin_comment:find("h=", 1, true))
	end)
end

function cases.nobody_passes_a_job_that_was_leased_until_a_later_snapshot()
	later("", function(sleep)
		publish({ "pass all TAKEN TILL" }, 1)
		assert(passed(submit()))
		assert(leased(submit({ array_inx = "1-3" })))
		assert(leased(submit()), "it jumped the queue")
		sleep(1)
		publish({ "pass all TAKEN TILL" }, 0)
		assert(leased(submit()), "that snapshot may not hold the leased job")
		sleep(3)
		publish({ "pass all TAKEN TILL" }, 2)
		assert(leased(submit()), "taken in the second after the last lease")
		sleep(3)
		publish({ "pass all TAKEN TILL" }, 1)
		assert(passed(submit()))
	end)
end

function cases.what_job_submit_does_not_remember_counts_as_leased()
	fresh("alive_file = " .. dir .. "/alive\n")
	publish({ "pass all TAKEN TILL" }, 0)
	assert(leased(submit()), "slurmctld was just started: somebody may be leased")
end

function cases.a_stale_torn_or_odd_publication_lets_nobody_pass()
	later("", function(sleep)
		publish({ "pass all TAKEN TILL" }, 1, true)
		assert(leased(submit()), "torn")
		sleep(10)
		for _, line in ipairs({ "pass all TAKEN 7", "pass all TAKEN", "pass all 99999999999 TILL", "pass none TAKEN TILL",
				"pass all -1 TILL", "pass some TAKEN TILL", "pass brief TAKEN TILL", " pass all TAKEN TILL", "pass all TAKEN TILL x" }) do
			publish({ line }, 1)
			if passed(submit()) then
				error("passed by: " .. line)
			end
			sleep(10)
		end
		publish({ "pass all TAKEN TILL" }, 1)
		sleep(6)
		assert(leased(submit()), "stale: pald may be dead")
		sleep(60)
		same(submit().admin_comment, nil)
	end)
end

function cases.jobs_whose_span_may_differ_or_that_start_in_a_way_of_their_own_are_leased_as_ever()
	for name, fields in pairs({
		nodes = { min_nodes = 2 }, range = { min_nodes = 1, max_nodes = 4 }, tasks = { num_tasks = 4 }, total = { tres_per_node = "", tres_per_job = "gres/gpu:2" },
		per_task = { tres_per_node = "", tres_per_task = "gres/gpu:1", num_tasks = 1 }, two = { tres_per_job = "gres/gpu:2" },
		typed = { tres_per_node = "gres/gpu:g1:1" }, array = { array_inx = "0-9%2" }, held = { priority = 0 },
		dependent = { dependency = "afterok:1" }, het = { het_job_offset = 0 }, own_nodes = { req_nodes = "n1" },
	}) do
		later("", function()
			publish({ "pass all TAKEN TILL" }, 1)
			if not leased(submit(fields)) then
				error("not leased: " .. name)
			end
		end)
	end
	later("", function()
		publish({ "pass all TAKEN TILL" }, 1)
		assert(passed(submit({ tres_per_node = "", tres_per_job = "gres:gpu:1" })))
		assert(passed(submit({ num_tasks = 8, max_nodes = 1, min_nodes = 1 })))
		assert(leased(submit({ begin_time = os.time() + 100 })))
	end)
end

function cases.who_is_over_too_soon_to_gain_by_a_lease_passes_by_user_and_application()
	local lines = { "pass brief TAKEN TILL", "brief 1000 -", "brief 1000 a.t", "brief 1000 resnet", "brief 10 bert" }
	for passing, kinds in pairs({
		[true] = {
			{}, { comment = "" }, { comment = "x" }, { comment = "app:resnet" }, { comment = "x app:resnet app:bert" },
			{ comment = "app:a.t" }, { comment = "app:bert", user_id = 10 }, { tres_per_node = "gres/gpu:1", cpus_per_task = 4 },
		},
		[false] = {
			{ comment = "app:bert" }, { comment = "app:axt" }, { comment = "app:" }, { comment = "app:-" }, { comment = "app:resn" },
			{ comment = "app:b\ne" }, { comment = "app:%a" }, { user_id = 100 }, { user_id = 10 }, { user_id = 0 }, { user_id = -1 },
			{ user_id = 2 ^ 60 }, { user_id = "1000" }, { comment = "app:resnet", array_inx = "0-9" }, { tres_per_node = "gres/gpu:g1:1" },
			{ comment = "app:resnet", min_nodes = 2 }, { comment = "app:resnet pal:share" }, { comment = "app:resnet", priority = 0 },
		},
	}) do
		for number, fields in ipairs(kinds) do
			later("", function()
				publish(lines, 1)
				if passed(submit(fields)) ~= passing then
					error(("case %d of those that %s"):format(number, passing and "pass" or "are leased"))
				end
			end)
		end
	end
	later("", function(sleep)
		publish(lines, 1)
		assert(leased(submit({ comment = "app:bert" })))
		assert(leased(submit()), "it jumped the queue")
		sleep(3)
		publish(lines, 1)
		assert(passed(submit()))
	end)
end

-- pald writes the file in place: whoever reads meanwhile sees parts of two versions.
function cases.a_file_that_is_being_written_is_a_sign_of_life_and_no_more()
	local function with(reads)
		later("", function()
			local open, now = io.open, os.time()
			io.open = function(path, mode)
				if path ~= dir .. "/alive" then
					return open(path, mode)
				end
				local text = table.remove(reads, 1):gsub("NOW", ("%d"):format(now)):gsub("TAKEN", ("%d"):format(now - 1))
				text = text:gsub("TILL", ("%d"):format(now + 5))
				return { read = function(_, most) return text:sub(1, most) end, close = function() end }
			end
			local fine, j = pcall(submit)
			io.open = open
			assert(fine, j)
			reads.passed = passed(j)
			assert(leased(j) or reads.passed, "the time in the first line counts always")
		end)
		return reads.passed
	end
	local old, new = "NOW 00000001\npass all TAKEN TILL\nend\n", "NOW 00000002\nend\n"
	local busy = "NOW --------\npass all TAKEN TILL\nend\n"
	assert(with({ old, old }))
	assert(not with({ old, new, new, new }), "changed meanwhile; then it says nothing of passing")
	assert(with({ busy, old, old }), "read again")
	assert(with({ new, old, old, old }), "read again")
	assert(not with({ busy, busy, busy }))
	assert(not with({ old, busy, old, busy, old, busy }))
	assert(not with({ "NOW\npass all TAKEN TILL\nend\n", "NOW\n", "NOW\n" }), "no version")
	local long = "NOW 00000001\npass all TAKEN TILL\n" .. ("brief 1 a\n"):rep(1700) .. "end\n"
	assert(not with({ long, long, long }), "its end is not read")
end

function cases.an_endless_file_is_read_to_a_bound()
	fresh("alive_file = /dev/zero\n")
	assert(not leased(submit()))
	write("pal_lua.conf", ("# x\n"):rep(4096))
	assert(not leased(submit()))
	assert(logged[#logged]:find("is longer than 16383 bytes; the former settings stay", 1, true), logged[#logged])
end

function cases.qos_that_pald_names_are_not_leased()
	later("preempt_qos = urgent\n", function()
		publish({ "preempt high,over.night" }, 1)
		for qos, wanted in pairs({ high = false, ["over.night"] = false, urgent = false, normal = true, hig = true,
				["over-night"] = true, ["normal,high"] = false }) do
			if leased(submit({ qos = qos })) ~= wanted then
				error("QOS " .. qos)
			end
		end
		same(leased(submit({ default_qos = "high" })), false)
		publish({ "preempt high" }, 1, true)
		assert(leased(submit({ qos = "high" })), "torn")
	end)
end

function cases.the_bell_stops_growing()
	write("wake", ("."):rep(1048576))
	fresh("wake_file = " .. dir .. "/wake\n")
	write("wake", "x" .. ("."):rep(1048575))
	submit()
	same(read("wake"), ("."):rep(1048576))
end

function cases.pald_is_woken_by_one_byte()
	write("wake", "")
	fresh("wake_file = " .. dir .. "/wake\n")
	submit()
	submit()
	submit({ tres_per_node = "" })
	same(read("wake"), "..")
	os.remove(dir .. "/wake")
	submit()
	assert(not io.open(dir .. "/wake"), "it must not create the file")
	fresh("wake_file = /dev/full\n")
	assert(leased(submit()))
end

function cases.values_that_could_be_misread_cost_the_lease_only()
	fresh()
	for _, odd in ipairs({ "a;b", "a}b", "a b", "a\nb", "\255", "a{", ("x"):rep(600) }) do
		local j = submit({ features = odd })
		same(j.admin_comment, nil)
		same(j.begin_time, 0)
		same(j.features, odd)
	end
end

function cases.hostile_comments_break_neither_the_submit_nor_the_mark()
	fresh()
	local env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" }
	for _, text in ipairs({ ("x"):rep(1020), (" "):rep(1020), ("app: "):rep(200) }) do
		local j = submit({ comment = text, spank_job_env = env, spank_job_env_size = 1 })
		assert(leased(j))
		assert(j.comment == text or #j.comment <= 1024)
	end
	for _, text in ipairs({ "a\nJobId=1 JobName=x", "\255\254", ("app:"):rep(256), "$(id) `id`", "\27[31m", "pal1{b=1}", "@group", "%s%d%1", "'; DROP TABLE x" }) do
		local j = submit({ comment = text, spank_job_env = env, spank_job_env_size = 1 })
		assert(leased(j))
		assert(j.comment:find("app:resnet", 1, true), text:sub(1, 20))
		same(j.admin_comment, ("pal1{b=%d;n=gres/gpu:2}"):format(j.begin_time))
		same(#logged, 0)
	end
end

function cases.an_error_undoes_everything_and_says_one_line()
	fresh()
	for _, broken in ipairs({ "begin_time", "admin_comment", "features", "comment" }) do
		logged = {}
		local stored = job({ comment = "mine", tres_per_node = "gres/gpu:a100:2",
			spank_job_env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" }, spank_job_env_size = 1,
			environment = { SLURM_GPUS_PER_NODE = "a100:2" } })
		local armed = true
		local proxy = setmetatable({}, {
			__index = stored,
			__newindex = function(_, key, value)
				if key == broken and armed then
					armed = false
					error("bad \27[31m thing\nJobId=1")
				end
				stored[key] = value
			end,
		})
		same(slurm_job_submit(proxy, PARTITIONS, 1000), slurm.SUCCESS)
		same(stored.comment, "mine")
		same(stored.tres_per_node, "gres/gpu:a100:2")
		same(stored.features or "", "")
		same(stored.admin_comment or "", "")
		same(stored.environment.SLURM_GPUS_PER_NODE, "a100:2")
		same(#logged, 1)
		assert(logged[1]:match("^pal: a job is left alone: [\32-\126]+$"), logged[1])
	end
end

function cases.missing_fields_of_another_release_are_no_error()
	fresh()
	local bare = {}
	same(slurm_job_submit(bare, {}, 0), slurm.SUCCESS)
	same(next(bare), nil)
	same(slurm_job_submit({ tres_per_node = "gres/gpu:1" }, PARTITIONS, 0), slurm.SUCCESS)
	same(slurm_job_submit(nil, nil, nil), slurm.SUCCESS)
end

function cases.bad_settings_leave_jobs_alone_or_keep_the_former_ones()
	for _, text in ipairs({ "leese = 20\n", "lease = 0\n", "lease = 601\n", "lease = -5\n", "lease = 1e2\n", "slots = maybe\n",
			"alive_file = relative\n", "shards = yes\n", "shards = palds\n", "just words\n", "= 3\n", "\255\n" }) do
		fresh(text)
		if leased(submit()) then
			error("leased with: " .. text)
		end
		submit()
		same(#logged, 1)
	end
	fresh("lease = 20\n")
	assert(leased(submit()))
	write("pal_lua.conf", "lease = never\n")
	assert(leased(submit()))
	same(#logged, 1)
	assert(logged[1]:match("line 1: lease can't have this value; the former settings stay$"), logged[1])
	write("pal_lua.conf", "# all off\n  enabled = no  \r\n")
	assert(not leased(submit({ tres_per_node = "gres/gpu:a100:1" })))
	write("pal_lua.conf", "lease = 5")
	same(submit().begin_time - os.time() <= 5, true)
end

function cases.without_settings_nothing_happens()
	fresh()
	os.remove(dir .. "/pal_lua.conf")
	dofile(dir .. "/job_submit.lua")
	local j = submit({ tres_per_node = "gres/gpu:a100:1", spank_job_env_size = 1,
		spank_job_env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" } })
	same(j.comment, nil)
	same(j.begin_time, 0)
	same(#logged, 1)
end

-- What a callback costs, beside what Slurm itself does to hand a text over: all that is allocated, the time of the processor.
local function costs(act)
	local kb, seconds = math.huge, math.huge
	for _ = 1, 3 do
		collectgarbage()
		collectgarbage("stop")
		local before, begun, collect = collectgarbage("count"), os.clock(), collectgarbage
		collectgarbage = function() end
		act()
		kb, seconds = math.min(kb, collect("count") - before), math.min(seconds, os.clock() - begun)
		collectgarbage = collect
		collectgarbage("restart")
	end
	assert(kb < 16 * 1024, ("%.0f KB"):format(kb))
	assert(seconds < 0.05, ("%.3f s"):format(seconds))
end

local MB64 = 64 * 1024 * 1024
local TEXTS = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "tres_freq", "comment", "features", "admin_comment",
	"partition", "qos", "default_qos", "reservation", "req_nodes", "exc_nodes", "array_inx", "dependency", "script", "cpus_per_tres",
	"mem_per_tres", "prefer" }
local UNREAD = "req_nodes exc_nodes array_inx dependency tres_freq cpus_per_tres mem_per_tres" -- or asked only whether they are there
local FILLS = { "gres/gpu:a100:1,", "gpu:1,shard:1,", ",", " ", "x", "#\n", "#SBATCH -x\n", "_SLURM_SPANK_OPTION_pal_pal_app=" }

function cases.no_submission_and_no_edit_costs_more_than_50_ms_or_16_mb()
	fresh(STANDARD .. "shards = pald\nalive_file = " .. dir .. "/alive\n")
	for _, fill in ipairs(FILLS) do
		write("alive", ("%d 0000abcd\nend\n"):format(os.time()))
		local text = fill:rep(math.floor(MB64 / #fill))
		for _, field in ipairs(TEXTS) do
			local before, after = job({ tres_per_node = "gres/gpu:a100:2", [field] = text })
			costs(function()
				after = job({ tres_per_node = "gres/gpu:a100:2", [field] = text })
				assert(slurm_job_submit(after, PARTITIONS, 1000) == slurm.SUCCESS)
				assert(slurm_job_modify({ [field] = text }, job({ job_state = 0 }), PARTITIONS, 1000) == slurm.SUCCESS)
				assert(slurm_job_modify({ tres_per_node = "gres/gpu:1", admin_comment = "x" }, { [field] = text, job_state = 0 },
					PARTITIONS, 1000) == slurm.SUCCESS)
			end)
			assert(leased(after) == (UNREAD:find(field, 1, true) ~= nil), field)
			for key, value in pairs(before) do
				if not leased(after) and type(value) ~= "table" and after[key] ~= value then
					error(("%s: %s is another"):format(field, key))
				end
			end
		end
		costs(function()
			submit({ environment = { SLURM_GPUS_PER_NODE = text, SLURM_GRES = text }, tres_per_node = "gres/gpu:a100:2" })
			submit({ spank_job_env = { [0] = text, text, text }, spank_job_env_size = 3 })
		end)
	end
	local words = {}
	for i = 0, 999999 do
		words[i] = "_SLURM_SPANK_OPTION_pal_pal_ap" .. ("_"):rep(i % 2 * 300)
	end
	costs(function() submit({ spank_job_env = words, spank_job_env_size = 1000000 }) end)
	costs(function() submit({ spank_job_env = words, spank_job_env_size = 1024 }) end)
	for _, line in ipairs({ "#\n", "#SBATCH -x\n", "#SBATCH" .. (" --dea"):rep(99999) .. "\n", "#SBATCH --dea" .. ("a"):rep(99999), "\n" }) do
		local script = line:rep(math.floor(4194304 / #line))
		costs(function() submit({ script = script }) end)
		assert(not leased(submit({ script = script })), "it may hold a deadline further down")
	end
	assert(leased(submit({ script = "#!/bin/sh\ntrue\n" .. ("x"):rep(4194288) })))
	assert(not leased(submit({ script = "#!/bin/sh\ntrue\n" .. ("x"):rep(4194290) })))
end

function cases.a_field_of_1024_bytes_is_read_and_one_more_leaves_the_job_alone()
	fresh("")
	local fits = "gres/gpu:1," .. ("x"):rep(1013)
	local long = submit({ qos = ("q"):rep(1025), comment = "x", spank_job_env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=net" }, spank_job_env_size = 1 })
	assert(not leased(long))
	same(long.comment, "x")
	same(logged[#logged], "pal: a job is left alone: qos is longer than 1024 bytes")
	assert(leased(submit({ qos = ("q"):rep(1024) })))
	assert(leased(submit({ dependency = ("afterok:1,"):rep(200), exc_nodes = ("n1,"):rep(400) })), "many Slurm takes")
	same(#fits, 1024)
	assert(pal.wants_gpus(fits))
	assert(leased(submit({ spank_job_env = { [0] = "OTHER_PLUGIN=" .. ("x"):rep(9999) }, spank_job_env_size = 1 })))
end

function cases.a_users_later_edit_passes()
	fresh()
	local edit = { begin_time = 1, tres_per_node = "gres/gpu:4" }
	same(slurm_job_modify(edit, {}, PARTITIONS, 1000), slurm.SUCCESS)
	same(edit.begin_time, 1)
	same(edit.tres_per_node, "gres/gpu:4")
end

local function filtered(options, settings)
	write("pal_lua.conf", settings or STANDARD)
	dofile(dir .. "/cli_filter.lua")
	assert(slurm_cli_pre_submit(options, 0) == slurm.SUCCESS)
	return options
end

function cases.the_clients_filter_writes_models_as_a_constraint()
	local o = filtered({ type = "salloc", gpus = "a100:4", ["tres-per-task"] = "cpu:1,gres/gpu:a100:1", constraint = "rack1" })
	same(o.gpus .. " " .. o["tres-per-task"] .. " " .. o.constraint, "4 cpu:1,gres/gpu:1 rack1&a100")
	same(filtered({ type = "sbatch", gres = "gpu:v100:2" }).gres, "gpu:2")
	same(filtered({ type = "sbatch", gres = "gpu:v100:2", partition = "cpu" }).gres, "gpu:v100:2")
	same(filtered({ type = "sbatch", gres = "gpu:v100:2", gpus = "a100:1" }).gres, "gpu:v100:2")
	same(filtered({ type = "sbatch", gres = "gpu:v100:2", constraint = "[a|b]" }).gres, "gpu:v100:2")
	same(filtered({ type = "sbatch", gpus = "2" }).constraint, nil)
	same(filtered({ type = "sbatch", gpus = "a100:2" }, "slots = no\nmodels = a100\n").gpus, "a100:2")
	same(filtered({ type = "sbatch", gpus = "a100:2" }, "no settings").gpus, "a100:2")
end

-- `jobs`: what scontrol says of a job; every command that the filter ran is kept.
local function step(options, environment, jobs)
	local getenv, popen, ran = os.getenv, io.popen, {}
	os.getenv = function(name) return environment[name] end
	io.popen = function(line)
		ran[#ran + 1] = line
		local said = (jobs or {})[line:match("show job (%S+)")] or ""
		return { read = function() return said end, close = function() end }
	end
	options.type = options.type or "srun"
	local fine, o = pcall(filtered, options, "shards = pald\n")
	os.getenv, io.popen = getenv, popen
	assert(fine, o)
	return ("%s|%s|%s"):format(o.gres or "", o.gpus or "", o["gpus-per-task"] or ""), ran
end

function cases.a_step_of_a_job_with_a_part_that_asks_for_its_gpu_asks_for_the_part()
	local inside = { SLURM_JOB_ID = "7", PAL_SHARDS_OF = "7", SLURM_GRES = "shard:1" }
	same(step({ gres = "gpu:1" }, inside), "shard:1||")
	same(step({ gres = "gpu", jobid = "7" }, inside), "shard:1||")
	same(step({ gres = "shard:1", gpus = "1" }, inside), "shard:1||")
	same(step({ gres = "gres/shard:1" }, inside), "shard:1||")
	same(step({ gres = "gres/shard:1", gpus = "1" }, inside), "shard:1||")
	local bound = { gres = "gres/shard:1", ["gpu-bind"] = "single:1", ["tres-bind"] = "gres/gpu:single:1" }
	step(bound, inside)
	same(bound["tres-bind"], "gres/shard:none")
	same(step({ ["gpus-per-task"] = "1", ntasks = "1" }, inside), "shard:1||")
	same(step({ ["gpus-per-task"] = "1", ntasks = "2" }, inside), "||1")
	for _, other in ipairs({ "gpu:2", "gpu:a100:1", "none", "gpu:1,license:x", "gpu:g1:1" }) do
		same(step({ gres = other }, inside), other .. "||")
	end
	same(step({ gres = "gpu:1" }, { SLURM_JOB_ID = "8", PAL_SHARDS_OF = "7", SLURM_GRES = "shard:1" }), "gpu:1||")
	same(step({ gres = "gpu:1", type = "sbatch" }, inside), "gpu:1||")
	same(step({ gres = "gpu:1" }, {}), "gpu:1||")
end

function cases.a_step_from_outside_asks_for_what_slurm_says_that_the_job_has()
	local jobs = { ["9"] = "JobId=9 TresPerNode=gres/shard:g2:1 X=1\n", ["10_3"] = " TresPerNode=gres/gpu:g2:1 X=1\n" }
	same(step({ jobid = "9" }, {}, jobs), "shard:1||")
	same(step({ jobid = "9", gres = "none" }, {}, jobs), "none||")
	same(step({ jobid = "9", gpus = "1" }, { SLURM_JOB_ID = "4" }, jobs), "shard:1||")
	same(step({ jobid = "10_3", gres = "gpu:1" }, {}, jobs), "gpu:1||")
	same(step({ jobid = "11" }, {}, jobs), "||")
	for _, hostile in ipairs({ "9; touch /tmp/x", "$(id)", "unset", "" }) do
		local said, ran = step({ jobid = hostile, gres = "gpu:1" }, {}, jobs)
		same(said, "gpu:1||")
		same(#ran, 0)
	end
end

function cases.the_clients_filter_undoes_what_it_began()
	local stored = { type = "sbatch", gpus = "a100:2", constraint = "rack1" }
	local armed = true
	filtered(setmetatable({}, {
		__index = stored,
		__newindex = function(_, key, value)
			if key == "gpus" and armed then
				armed = false
				error("refused")
			end
			stored[key] = value
		end,
	}))
	same(stored.gpus .. stored.constraint, "a100:2rack1")
end

local names, failed = {}, 0
for name in pairs(cases) do
	names[#names + 1] = name
end
table.sort(names)
for _, name in ipairs(names) do
	local fine, why = pcall(cases[name])
	if fine then
		print("ok " .. name)
	else
		failed = failed + 1
		print("not ok " .. name .. ": " .. tostring(why))
	end
end
os.exit(failed == 0 and 0 or 1)
