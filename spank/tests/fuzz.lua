--[[ Jobs for job_submit.lua and options for cli_filter.lua: first every field at every type and value, one by one, then drawn
ones: several odd fields, fields that refuse to be written, odd settings.
In: the directory of copies of both files (arg[1], writable), seconds of CPU (arg[2]), a seed (arg[3]). Out: a line of what
was tried; exit status 1 and the job in words when a callback raised, a lease is too long, a mark can be misread, a comment is too
long, a job that was left alone is not as it was, one is refused that asks for no parts of GPUs, or a field is read that is not among
those that are tried. ]]

local dir, seconds, seed = arg[1], tonumber(arg[2] or 2), tonumber(arg[3] or 1)
math.randomseed(seed)
local faults
slurm = {
	SUCCESS = 0,
	ERROR = -1,
	log_info = function(_, text) faults = text:find("left alone: ", 1, true) and text or faults end,
	log_user = function() end,
}

local TEXTS = {
	"", " ", "gpu:2", "gres/gpu:a100:2", "gres:gpu:1", "gpu", "gpu:", "gpu:a100", "gpu=3", "gres/gpu:0", "gpu:1,gpu:2", "license:x",
	"gpu:99999999999999999999", "a100", "a|b", "[a*2&b*4]", "app:x", "app:", "pal:move", "pal:move=USR1@60!", "pal:off", "n1,n[2-3]",
	"gpu,cpu", ",", ";{}", "pal1{b=1}", "\0", "\n", "%s%d%n", "\255\254", "é", "_SLURM_SPANK_OPTION_pal_pal_app=bert",
	"_SLURM_SPANK_OPTION_pal_pal_move=(null)", "_SLURM_SPANK_OPTION_pal_pal_move=B:USR2@9", "PAL_KEEP_OFF=1", "#!/bin/sh\n#SBATCH --dead=1\n",
	"gres/shard:1", "shard:g0:1", "gres:shard:g1", "mps:a100:50", "gres/mps:v100=5", "shard:2K", "shard:",
	("x"):rep(513), ("y "):rep(600), ("gpu:1,"):rep(200), ("("):rep(300), "yes", "0", "-1", "1e308",
}
local NUMBERS = { 0, 1, 2, 3, -1, 0.5, 65534, 4294967293, 4294967294, 4294967295, 1e18, -1e300, 1 / 0, -1 / 0, 0 / 0, 2 ^ 53 }
local FIELDS = {
	"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "tres_freq", "comment", "features", "admin_comment", "begin_time",
	"partition", "qos", "default_qos", "reservation", "req_nodes", "exc_nodes", "array_inx", "dependency", "script", "environment",
	"spank_job_env", "spank_job_env_size", "immediate", "cron_job", "ntasks_per_tres", "ntasks_per_gpu", "min_nodes", "max_nodes",
	"num_tasks", "cpus_per_task", "pn_min_cpus", "min_cpus", "pn_min_memory", "cpus_per_tres", "mem_per_tres", "shared", "requeue",
	"priority", "prefer", "het_job_offset", "user_id",
}
local OPTIONS = { "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task", "partition", "constraint", "type", "jobid", "ntasks" }
local SETTINGS = {
	"partitions = gpu", "partitions =", "lease = 20", "lease = 600", "lease = 601", "slots = yes", "models = a100,v100", "enabled = yes",
	"enabled = no", "alive_file = " .. dir .. "/alive", "wake_file = " .. dir .. "/alive", "preempt_qos = high", "tell = wait", "# x",
	"shards = pald", "shards = users", "shards = x", "nonsense", "\255 = 1", "tell = {}", "lease = 99999999999999999999",
}

local TYPES = { "nil", "boolean", "number", "string", "table", "function", "userdata", "thread" }
local VALUES = { true, false, print, io.stdout, coroutine.create(function() end), {}, { "gpu:2" }, { {}, {} },
	{ [0] = "_SLURM_SPANK_OPTION_pal_pal_app=bert" }, { [0] = {} }, { SLURM_GPUS = "a100:2", SLURM_GRES = "gpu:a100:2" }, { SLURM_GPUS = 7 } }
for _, list in ipairs({ TEXTS, NUMBERS }) do
	for _, value in ipairs(list) do
		VALUES[#VALUES + 1] = value
	end
end

local function any(list) return list[math.random(#list)] end

local function text()
	local made = any(TEXTS)
	while math.random() < 0.4 do
		made = made .. any({ " ", ",", "", "\n" }) .. any(TEXTS)
	end
	return made
end

local function value(depth)
	local kind = math.random(12)
	if kind <= 6 then return text() end
	if kind <= 9 then return math.random() < 0.2 and os.time() + math.random(-9, 9999) or any(NUMBERS) end
	if kind == 10 then return math.random() < 0.5 end
	if kind == 11 then return any({ print, io.stdout, coroutine.create(function() end) }) end
	local made = {}
	for i = 0, depth > 1 and 0 or math.random(0, 3) do
		made[any({ i, "SLURM_GPUS", "SLURM_GRES", text() })] = value(depth + 1)
	end
	return made
end

local function write(name, lines)
	local file = assert(io.open(dir .. "/" .. name, "w"))
	file:write(lines)
	file:close()
end

-- `told`: one more line, and nothing odd; nil: what is drawn.
local function settings(told)
	local made = { "slots = yes", "models = a100", "partitions = gpu" }
	made[#made + 1] = told
	for _ = 1, told and 0 or math.random(0, 4) do
		made[#made + 1] = any(SETTINGS)
	end
	write("pal_lua.conf", table.concat(made, "\n") .. "\n")
	local now = os.time()
	local said = ("%d\nlease %s\npass %s %d %d\nbrief %s -\npreempt high\nend\n"):format(
		now + any({ 0, 0, -90 }), any({ "20", "600", "7e3", "-1" }), any({ "all", "brief", "x" }), now + 5, now + 9, any({ "1000", "0", "x" }))
	write("alive", (not told and math.random() < 0.2) and text() or said)
end

local function job()
	local made = {
		begin_time = 0, min_nodes = 4294967294, max_nodes = 4294967294, user_id = 1000, het_job_offset = 4294967294,
		spank_job_env_size = 0, spank_job_env = {}, environment = {}, script = "#!/bin/sh\n", tres_per_node = "gres/gpu:2",
	}
	for _ = 1, math.random(0, 6) do
		made[any(FIELDS)] = value(1)
	end
	if math.random() < 0.1 then
		made[any(FIELDS)] = nil
	end
	return made
end

-- A field that Slurm does not let be written.
local function stubborn(held, field)
	return setmetatable({}, {
		__index = held,
		__newindex = function(_, key, new)
			if key == field then error("no such field") end
			held[key] = new
		end,
	})
end

local function copy(held)
	local made = {}
	for key, kept in pairs(held) do
		made[key] = kept
	end
	return made
end

local function told(held)
	local made = {}
	for key, kept in pairs(held) do
		made[#made + 1] = ("%s=%q"):format(key, tostring(kept))
	end
	table.sort(made)
	return table.concat(made, " ")
end

local WRITTEN = { comment = true, features = true, admin_comment = true, begin_time = true, tres_per_node = true, tres_per_job = true,
	tres_per_task = true, tres_per_socket = true }

local function same(a, b) return a == b or (a ~= a and b ~= b) or (b == nil and a == "") or (b == false and a == "") end

local function wrong(before, after, now)
	for key, kept in pairs(after) do
		if not same(kept, before[key]) then
			if faults then return "left alone, and " .. key .. " is another" end
			if not WRITTEN[key] then return key .. " is another" end
		end
	end
	if not same(after.begin_time, before.begin_time) and not (faults and after.begin_time == "") then
		local own = type(before.begin_time) == "number" and before.begin_time < 4294967294 and before.begin_time or 0
		if after.begin_time > math.max(own, now + 601) then return "a lease of " .. after.begin_time - now .. " s" end
		local mark = tostring(after.admin_comment):match("^(%S+)")
		if not (mark and mark:match("^pal1{[^{}%s]*}$")) then return "leased without a mark" end
		if mark:match("^pal1{b=(%d+)") ~= ("%d"):format(after.begin_time) then return "the mark has another end" end
	end
	if not same(after.comment, before.comment) and #after.comment > 1024 then return "a comment of " .. #after.comment end
end

local function asks_for_parts(held)
	for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }) do
		local asked = held[field]
		if type(asked) == "string" and (asked:find("shard", 1, true) or asked:find("mps", 1, true)) then
			return true
		end
	end
	return false
end

local function set_of(list)
	local made = {}
	for _, name in ipairs(list) do
		made[name] = true
	end
	return made
end

-- Slurm's records are no tables: what is read of one is asked for by name.
local read, tried = { field = {}, option = {} }, {}
local function asked(held, what)
	return setmetatable({}, { __index = function(_, key) read[what][key] = true return held[key] end, __newindex = held })
end

local PARTITIONS = { { gpu = { flag_default = 1 }, cpu = { flag_default = 0 } }, {}, { gpu = {} }, { gpu = { flag_default = "1" } } }
local runs, leases, alone, refused = 0, 0, 0, 0

local function submitted(held, given)
	local before, now = copy(held), os.time()
	faults = nil
	local fine, said = pcall(slurm_job_submit, asked(given, "field"), any(PARTITIONS), any({ 0, 1000 }))
	local bad = not fine and said or wrong(before, held, now)
		or said ~= slurm.SUCCESS and not asks_for_parts(before) and "it refused the job"
	refused = refused + (said == slurm.ERROR and 1 or 0)
	fine, said = pcall(slurm_job_modify, asked(given, "field"), any({ {}, before }), any(PARTITIONS), any({ 0, 1000 }))
	bad = bad or (not fine and said) or (said ~= slurm.SUCCESS and not asks_for_parts(held) and "it refused an update") or nil
	if bad then
		print(("not ok: %s\nseed %d, job %d: %s\nafter: %s\n%s"):format(bad, seed, runs, told(before), told(held), faults or ""))
		os.exit(1)
	end
	runs, leases, alone = runs + 1, leases + (same(held.begin_time, before.begin_time) and 0 or 1), alone + (faults and 1 or 0)
end

-- A model goes out of a request only where it came into the constraint; nothing else is another.
local function filtered(options)
	local before, changed = copy(options), nil
	local fine, said = pcall(slurm_cli_pre_submit, asked(options, "option"), 0)
	local bad = not fine and said or said ~= slurm.SUCCESS and "it refused the command" or nil
	for key, value in pairs(options) do
		if not same(value, before[key]) and key ~= "constraint" then
			changed = key
			bad = bad or (key == "type" or key == "partition" or type(value) ~= "string") and key .. " is another" or nil
		end
	end
	if changed and not bad and not tostring(options.constraint):find("a100", 1, true) then
		bad = changed .. " lost its model"
	end
	if bad then
		print(("not ok: %s\noptions: %s\nafter: %s"):format(bad, told(before), told(options)))
		os.exit(1)
	end
end

local function each(names, made, try)
	for _, name in ipairs(names) do
		for at = 0, #VALUES do
			local held = made()
			held[name] = at > 0 and VALUES[at] or nil
			tried[name .. " " .. type(held[name])] = true
			try(held, held)
		end
	end
end

local function plain_job()
	return { begin_time = 0, min_nodes = 4294967294, max_nodes = 4294967294, user_id = 1000, het_job_offset = 4294967294,
		spank_job_env = {}, spank_job_env_size = 1, environment = {}, script = "#!/bin/sh\n", tres_per_node = "gres/gpu:a100:2",
		partition = "gpu" }
end

local function all_tried(names, what)
	local known, missing = set_of(names), {}
	for name in pairs(read[what]) do
		if not known[name] then missing[#missing + 1] = what .. " " .. name .. " is read" end
	end
	for _, name in ipairs(names) do
		for _, kind in ipairs(TYPES) do
			if not tried[name .. " " .. kind] then missing[#missing + 1] = name .. " was never a " .. kind end
		end
	end
	if #missing > 0 then
		print("not ok: not tried: " .. table.concat(missing, ", "))
		os.exit(1)
	end
	return #names
end

settings()
dofile(dir .. "/cli_filter.lua") -- and job_submit.lua with it
each(OPTIONS, function() return { gres = "gpu:a100:2", type = "sbatch" } end, filtered)
for round = 1, 4 do
	settings(({ "enabled = yes", "shards = pald" })[round])
	each(FIELDS, plain_job, submitted)
end
while os.clock() < seconds do
	if runs % 50 == 0 then
		settings()
	end
	local held = job()
	submitted(held, math.random() < 0.1 and stubborn(held, any(FIELDS)) or held)
	if runs % 10 == 0 then
		local drawn = { gres = "gpu:a100:2", type = any({ "sbatch", "srun" }) }
		for _ = 1, math.random(0, 3) do
			drawn[any(OPTIONS)] = value(1)
		end
		filtered(drawn)
	end
end
local fields, options = all_tried(FIELDS, "field"), all_tried(OPTIONS, "option")
print(("%d jobs: %d leased, %d left alone after a fault, %d refused; %d fields and %d options at each of %d types"):format(
	runs, leases, alone, refused, fields, options, #TYPES))
os.exit(runs > 0 and leases > 0 and alone > 0 and refused > 0 and 0 or 1)
