--[[ job_submit.lua: what pal-slurm does inside slurmctld, at submission; later it says no, and keeps its mark.

In: the request of one job, the settings of pal_lua.conf (which lies beside this file), the clock.
Out: the same request with
  1. what --pal-app, --pal-move, --pal-same and --pal-dearer say as words of the comment (app:NAME, pal:move ...),
  2. GPU models written as node features, where the cluster names its devices by slot (slots = yes),
  3. a lease: a begin time a little ahead, and a mark in the AdminComment that says it is ours and
     keeps the original request; where pald says that nothing better can come for the job, the begin time is now.
Whatever goes wrong in here, the job is submitted as if this file were not there. Two requests are refused, also where
they are edited in later: parts of GPUs of two types in one job, for Slurm never gives those back; and, where the site
says that parts are pald's to give (shards = pald), shards at all.

It runs under slurmctld's locks: no waiting, no subprocess, no directory, and no text is looked at before its size is
known (`sized`, `pal.read_file`). It is written in the common part of
Lua 5.1 to 5.4, because Debian's Slurm 22.05 embeds 5.1. Numbers that are not set are 0 or NO_VAL, texts are nil.
docs/tagging.md explains it, docs/decisions/0003-tagging-and-leases.md says why and what was tried. ]]

pal = {} -- the one global besides Slurm's two callbacks: cli_filter.lua and the tests reach the parts by it

local TRES_FIELDS = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }
local MARK_KEYS = { tres_per_node = "n", tres_per_job = "j", tres_per_task = "t", tres_per_socket = "s" }
local NO_VAL16 = 65534 -- how Slurm says "not set" in a field of 16 bits
local LONGEST_TEXT = 1024 -- of a field: slurmctld refuses a longer one, but only after job_submit has run
local LONGEST_OF = { script = 4 * 1024 * 1024, admin_comment = 8192 } -- of these; a script: max_script_size, as it is by default
local CUT = { array_inx = true, dependency = true, req_nodes = true, exc_nodes = true } -- may be longer: only "is there one?" counts
local LONGEST_HEAD = 16384 -- of a script: comments and #SBATCH lines before its first command
local MOST_WORDS, LONGEST_WORD = 1024, 256 -- of SPANK plugins' environment
local LONGEST_FILE = 16384 -- of pal_lua.conf and the alive file
local BULKY = 65536 -- texts of this size are not left to the garbage collector
local LATEST = 253402300799 -- the end of year 9999, the last that Slurm's commands can say
local MOST_RINGS = 1048576 -- bytes of the wake file
local LONGEST_VALUE = 512 -- of one field of the mark; longer requests are left alone
local LONGEST_LEASE = 600 -- a lease never exceeds ten minutes (docs/decisions/0013)
local LONGEST_TELL = 120 -- characters for who looks with scontrol
local LEASE = 20 -- where neither pal_lua.conf nor pald says how long it is
local ALIVE_FOR = 60 -- seconds that pald's sign of life is believed
local SETTLED = 2 -- a snapshot so many seconds younger than a lease holds its job: a second is lost in rounding
local OPTION = "_SLURM_SPANK_OPTION_pal_pal_app=" -- how Slurm hands a SPANK option of plugin `pal` to job_submit
local MOVE_OPTION = "_SLURM_SPANK_OPTION_pal_pal_move="
-- Options without a value -> the words that they are.
local FLAGS = {
	["pal-same"] = { "_SLURM_SPANK_OPTION_pal_pal_same=", "pal:same" },
	["pal-dearer"] = { "_SLURM_SPANK_OPTION_pal_pal_dearer=", "pal:dearer" },
}
local MOST_COST, MOST_AHEAD = 86400, 3600 -- seconds that --pal-move may name
local KEEP_OFF = "PAL_KEEP_OFF=" -- set by our SPANK plugin for what job_submit can't see: --deadline, -I SECONDS

-- Words -------------------------------------------------------------------------------------------------------------

-- The one pattern of names, shared with C and Python through spank/tests/vectors.txt.
function pal.is_app(name)
	return type(name) == "string" and #name <= 64 and name:find("^[A-Za-z0-9][A-Za-z0-9._+%-]*$") ~= nil
end

-- What may stand behind pal:move=, shared in the same way: SECONDS, or [B:]SIGNAL@SECONDS[!].
function pal.is_move(value)
	local cost = value:match("^[1-9]%d*$")
	if cost then
		return #cost <= 5 and tonumber(cost) <= MOST_COST
	end
	local signal, ahead = value:gsub("^B:", ""):gsub("^SIG", ""):match("^(USR[12])@([1-9]%d*)!?$")
	return signal ~= nil and #ahead <= 4 and tonumber(ahead) <= MOST_AHEAD
end

-- Puts the word where the user's first one of its kind stands, or at the end; every other byte stays as it was.
local function with_word(comment, word, is_such)
	if comment == nil or comment == "" then
		return word
	end
	for start, found, finish in comment:gmatch("()([^ \t\r\n\v\f]+)()") do
		if is_such(found) then
			return comment:sub(1, start - 1) .. word .. comment:sub(finish)
		end
	end
	return comment .. " " .. word
end

function pal.tagged(comment, app)
	return with_word(comment, "app:" .. app, function(word) return word:find("app:", 1, true) == 1 end)
end

-- `value`: what stands behind --pal-move=; "" where nothing does.
function pal.with_move(comment, value)
	local word = value == "" and "pal:move" or "pal:move=" .. value
	return with_word(comment, word, function(w) return w == "pal:move" or w:find("pal:move=", 1, true) == 1 end)
end

local function split(list)
	local items = {}
	for item in (list or ""):gmatch("[^,%s]+") do
		items[#items + 1] = item
	end
	return items
end

local function set_of(list)
	local set = {}
	for _, item in ipairs(split(list)) do
		set[item] = true
	end
	return set
end

-- A number as Slurm gives it, or nil for its several ways of saying "not set" (0, NO_VAL, INFINITE).
local function given(number, unset)
	if type(number) ~= "number" or number <= 0 or number >= (unset or 4294967294) then
		return nil
	end
	return number
end

-- What Slurm hands over ---------------------------------------------------------------------------------------------

local NONE, bulky = {}, false

local function measured(field, value, longest, cut)
	if type(value) == "string" and #value > longest then
		bulky = bulky or #value > BULKY
		if not cut then
			error({ ("%s is longer than %d bytes"):format(field, longest) })
		end
		return value:sub(1, longest)
	end
	return value
end

-- A record of Slurm's whose fields are read once, and only here: one that is too long ends the callback.
local function sized(held, name, longest, cut)
	local known = {}
	return setmetatable({}, {
		__index = function(_, field)
			local value = known[field]
			if value == nil then
				if field == "spank_job_env" and (given(held.spank_job_env_size) or 0) > MOST_WORDS then
					error({ ("spank_job_env has more than %d words"):format(MOST_WORDS) })
				end
				value = measured(name or field, held[field], longest or LONGEST_OF[field] or LONGEST_TEXT, cut or CUT[field])
				if (field == "environment" or field == "spank_job_env") and (type(value) == "table" or type(value) == "userdata") then
					local words = field == "spank_job_env"
					value = sized(value, field, words and LONGEST_WORD or LONGEST_TEXT, words)
				end
				known[field] = value == nil and NONE or value
			end
			if value == NONE then
				return nil
			end
			return value
		end,
		__newindex = function(_, field, value)
			held[field] = value
			known[field] = value == nil and NONE or value
		end,
	})
end

-- Settings ----------------------------------------------------------------------------------------------------------

local READERS = {
	enabled = function(v) return ({ yes = true, no = false })[v] end,
	slots = function(v) return ({ yes = true, no = false })[v] end,
	shards = function(v) return (v == "users" or v == "pald") and v or nil end,
	partitions = set_of,
	models = set_of,
	preempt_qos = set_of,
	alive_file = function(v) return v:match("^/.*$") end,
	wake_file = function(v) return v:match("^/.*$") end,
	tell = function(v) -- no braces: those are the mark's
		return #v <= LONGEST_TELL and v:match("^[\32-\122|~]+$") or nil
	end,
	lease = function(v)
		local n = v:match("^%d+$") and tonumber(v)
		return n and n >= 1 and n <= LONGEST_LEASE and n or nil
	end,
}

-- "key = value" lines; returns the settings, or nil and a sentence.
function pal.parse_settings(text)
	local s = { enabled = true, slots = false, shards = "users", partitions = {}, models = {}, preempt_qos = {} }
	local number = 0
	for line in (text .. "\n"):gmatch("(.-)\r?\n") do
		number = number + 1
		line = line:gsub("^%s+", ""):gsub("%s+$", "")
		if line ~= "" and line:sub(1, 1) ~= "#" then
			local key, value = line:match("^([a-z_]+)%s*=%s*(.-)$")
			if not key or not READERS[key] then
				return nil, ("line %d: no such setting"):format(number)
			end
			local read = nil
			if value ~= "" then
				read = READERS[key](value)
				if read == nil then
					return nil, ("line %d: %s can't have this value"):format(number, key)
				end
				s[key] = read
			end
		end
	end
	return s
end

-- Its first bytes, LONGEST_FILE at most. These files lie where only root makes and replaces entries: no pipe, no device.
function pal.read_file(path, most)
	local file = io.open(path, "r")
	if not file then
		return nil
	end
	local text = file:read(most or LONGEST_FILE) or ""
	file:close()
	return text
end

local function log(sentence)
	slurm.log_info("%s", "pal: " .. sentence:gsub("[^\32-\126]", "?"):sub(1, 300))
end

local settings_path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "pal_lua.conf"
local settings, settings_text = nil, false

-- Reads the small file anew for every job, so that an edit counts at once; a bad one leaves the last good one.
local function current_settings()
	local text = pal.read_file(settings_path)
	if text ~= settings_text then
		settings_text = text
		local fresh, fault
		if text and #text == LONGEST_FILE then
			fault = ("is longer than %d bytes"):format(LONGEST_FILE - 1)
		elseif text then
			fresh, fault = pal.parse_settings(text)
		else
			fault = "can't be read"
		end
		if fresh then
			settings = fresh
		else
			log(("%s: %s; %s"):format(settings_path, fault,
				settings and "the former settings stay" or "jobs are left alone"))
		end
	end
	return settings
end

-- GPU requests ------------------------------------------------------------------------------------------------------

-- One item of a TRES list: "gres/gpu:a100:2" -> "gres/", "a100", "2". Nil when it isn't about whole GPUs.
local function gpu_item(item)
	local prefix, rest = item:match("^(gres[:/])gpu(.*)$")
	if not prefix then
		prefix, rest = "", item:match("^gpu(.*)$")
	end
	if not rest or (rest ~= "" and not rest:match("^[:=]")) then
		return nil
	end
	local model, count = rest:match("^:([^:=]+)[:=](%d+)$")
	if not model then
		count = rest:match("^[:=](%d+)$")
		model = not count and rest:match("^:([^:=]+)$") or nil
	end
	return prefix, model, count or "1"
end

function pal.wants_gpus(tres)
	for _, item in ipairs(split(tres)) do
		local prefix, _, count = gpu_item(item)
		if prefix and tonumber(count) > 0 then
			return true
		end
	end
	return false
end

-- "gres/gpu:a100:2,license:x" -> "gres/gpu:2,license:x", "a100". Returns nil when no known model is named or when two
-- GPU items stand side by side: those can't be said without types.
function pal.without_model(tres, models)
	local items, gpus, found = split(tres), 0, nil
	for i, item in ipairs(items) do
		local prefix, model, count = gpu_item(item)
		if prefix then
			gpus = gpus + 1
		end
		if model and models[model] then
			found = model
			items[i] = prefix .. "gpu:" .. count
		end
	end
	if not found or gpus > 1 then
		return nil
	end
	return table.concat(items, ","), found
end

-- The user's feature expression and one more feature; nil when it can't be joined without changing its meaning.
function pal.with_feature(features, model)
	if features == nil or features == "" then
		return model
	end
	if not features:match("^[A-Za-z0-9_.:|&=+-]+$") then
		return nil
	end
	local joined = features .. "&" .. model
	if features:find("|", 1, true) then
		joined = "(" .. features .. ")&" .. model
	elseif ("&" .. features .. "&"):find("&" .. model .. "&", 1, true) then
		joined = features
	end
	return #joined <= LONGEST_TEXT and joined or nil
end

-- Two types of shards (or of mps) in one job: of the first Slurm leaks one for good after the job has ended, and no
-- whole-GPU job can use that device until slurmctld is started again. Seen on 22.05, 24.11 and 26.05.
function pal.two_shared_types(job)
	local seen = {}
	for _, field in ipairs(TRES_FIELDS) do
		for _, item in ipairs(split(job[field])) do
			local bare = item:gsub("^gres[:/]", "")
			local name, kind = bare:match("^(%a+):([^:=]+)[:=]%d+[KMG]?$")
			if not name then
				name, kind = bare:match("^(%a+):([^:=]+)$")
			end
			if (name == "shard" or name == "mps") and not kind:match("^%d+[KMG]?$") then
				if seen[name] and seen[name] ~= kind then
					return name
				end
				seen[name] = kind
			end
		end
	end
	return nil
end

function pal.wants_shards(job)
	for _, field in ipairs(TRES_FIELDS) do
		for _, item in ipairs(split(job[field])) do
			local rest = item:gsub("^gres[:/]", ""):match("^shard(.*)$")
			if rest and (rest == "" or rest:match("^[:=]")) and not rest:match("[:=]0+$") then
				return true
			end
		end
	end
	return false
end

-- The lease ---------------------------------------------------------------------------------------------------------

-- True when the #SBATCH lines ask for a deadline: job_submit has no field for it on any release.
function pal.script_has_deadline(script)
	script = script or ""
	for line in (script:sub(1, LONGEST_HEAD) .. "\n"):gmatch("(.-)\n") do
		if line:match("^#SBATCH%s") then
			if line:match("%s%-%-dea%a*[=%s]") then -- getopt takes any abbreviation that is clear
				return true
			end
		elseif not line:match("^%s*$") and not line:match("^%s*#") then
			return false -- sbatch reads its options up to the first command
		end
	end
	return #script > LONGEST_HEAD -- there may be one further down
end

local function spank_word(job, prefix)
	local env, size = job.spank_job_env, job.spank_job_env_size
	for i = 0, (given(size) or 0) - 1 do
		local word = env and env[i]
		if not word then
			return nil -- whatever the size says: slurmctld waits for us
		end
		local at = word:find(prefix, 1, true)
		if at then
			return word:sub(at + #prefix)
		end
	end
	return nil
end

local function managed(job, s, partitions)
	if next(s.partitions) == nil then
		return true
	end
	if job.partition and job.partition ~= "" then
		for _, name in ipairs(split(job.partition)) do
			if s.partitions[name] then
				return true
			end
		end
		return false
	end
	for name, record in pairs(partitions) do
		if s.partitions[name] and record.flag_default == 1 then
			return true
		end
	end
	return false
end

-- pald's sign of life and what stands beside it (pal_slurm/daemon/leases/alive.py); nil when pald does not live.
-- pald writes the file in place, and the version in its first line last: one that is the same before and after holds for all.
local function sign_of_life(s, now)
	if not s.alive_file then
		return ""
	end
	local text, beat
	for _ = 1, 3 do
		text = pal.read_file(s.alive_file) or ""
		beat = tonumber((text:match("^%s*(%d+)")))
		if beat == nil or math.abs(now - beat) > ALIVE_FOR then
			return nil
		end
		local head = text:match("^%d+ %x+\n")
		if head and text:match("\nend\n$") and pal.read_file(s.alive_file, #head) == head then
			return text
		end
	end
	return ""
end

-- QOS that may preempt: the admin's list, and what pald heard from Slurm.
local function preempts(job, s, said)
	local told = "," .. (said:match("\npreempt ([^\n]*)\n") or "") .. ","
	for _, qos in ipairs(split(job.qos or job.default_qos)) do
		if s.preempt_qos[qos] or told:find("," .. qos .. ",", 1, true) then
			return true
		end
	end
	return false
end

-- Seconds: the admin's word here, else that of pal.yaml, which pald passes on.
local function length_of(s, said)
	return s.lease or READERS.lease(said:match("\nlease (%d+)\n") or "") or LEASE
end

-- Whom a lease would hurt.
local function exempt(job, s, said)
	return (given(job.immediate) ~= nil)
		or job.cron_job == true -- Slurm lets nobody edit a scrontab job later, and it has a begin time of its own
		or (job.reservation ~= nil and job.reservation ~= "")
		or preempts(job, s, said)
		or (spank_word(job, KEEP_OFF) ~= nil)
		-- --ntasks-per-gpu: 24.11 counts its tasks anew, and wrongly, at any later edit, even of its start time
		or given(job.ntasks_per_tres, NO_VAL16) ~= nil
		or given(job.ntasks_per_gpu, NO_VAL16) ~= nil
		or pal.script_has_deadline(job.script)
end

-- It may have its GPU together with another job.
function pal.shares(job)
	return (" " .. (job.comment or "") .. " "):find(" pal:share ", 1, true) ~= nil
end

-- What leaves no room for another, or would be felt by it: --mem=0 is all of a node's memory, Slurm puts --oversubscribe
-- not beside jobs that say nothing, and --gpu-freq sets the clock for both.
function pal.keeps_to_itself(job)
	return job.pn_min_memory == 0 or job.shared == 1 or (job.tres_freq or "") ~= ""
end

-- The mark: who holds the job until when, and what to give back. Nil when a value could be misread.
-- `own`: the user's own begin time, where it is still to come. `shards`: whose they are.
function pal.mark(job, lease_end, own, shards)
	local parts = { ("b=%d"):format(lease_end) }
	if own then
		parts[2] = ("u=%d"):format(own)
	end
	local function add(key, value)
		if value == nil or value == "" then
			return true
		end
		if #value > LONGEST_VALUE or value:find("[^\33-\126]") or value:find("[;{}]") then
			return false
		end
		parts[#parts + 1] = key .. "=" .. value
		return true
	end
	for _, field in ipairs(TRES_FIELDS) do
		if not add(MARK_KEYS[field], job[field]) then
			return nil
		end
	end
	local least, most = given(job.min_nodes), given(job.max_nodes)
	if least or most then
		add("N", (least and ("%d"):format(least) or "") .. "-" .. (most and ("%d"):format(most) or ""))
	end
	if not (add("P", job.partition) and add("f", job.features)) then
		return nil
	end
	add("F", job.prefer) -- --prefer, for who reads the queue without it; one that can't be told is left out
	if job.req_nodes and job.req_nodes ~= "" then
		add("r", "1") -- the user's own node list: one that stands there later is no pin of ours
	end
	if not job.script then
		add("i", "1") -- srun or salloc: srun asks for what its allocation then says of GRES, beside its own options
	end
	if job.requeue == 0 or job.requeue == 1 then
		add("q", ("%d"):format(job.requeue)) -- --requeue or --no-requeue was said: later nothing tells that from the default
	end
	if ((job.comment or "") .. " "):find("^pal:move[ =]") or ((job.comment or "") .. " "):find(" pal:move[ =]") then
		add("m", "1") -- it asked to be moved: a comment that no longer says so was changed since
	end
	if pal.shares(job) and not pal.keeps_to_itself(job) then
		-- The same of having its GPU together with another job. Where users ask for shards themselves a stranger could come
		-- to it: then it has a whole one.
		add("h", shards == "pald" and "1" or "u")
	end
	return "pal1{" .. table.concat(parts, ";") .. "}"
end

-- Passing: what starts as if we were not there, because nothing better can come for it -----------------------------

local last_lease = os.time() -- when somebody was leased last; what was before this file was read is not known

-- On one node wherever it starts, so that no span is better than another.
local function is_on_one_node(job)
	local gpus, fields = 0, 0
	for _, field in ipairs(TRES_FIELDS) do
		for _, item in ipairs(split(job[field])) do
			local prefix, model, count = gpu_item(item)
			if prefix then
				gpus, fields = tonumber(count), fields + 1
				if model or not (field == "tres_per_node" or (field == "tres_per_job" and gpus == 1)) then
					return false
				end
			end
		end
	end
	local most = given(job.max_nodes)
	local one = most == 1 or (not most and (given(job.min_nodes) or 1) == 1 and (given(job.num_tasks) or 1) == 1)
	return fields == 1 and gpus > 0 and one
end

-- Jobs that start together, later or in a way of their own are leased as ever.
local function is_plain(job)
	local offset = job.het_job_offset
	return not (type(offset) == "number" and offset < 4294967294)
		and (job.array_inx == nil or job.array_inx == "")
		and (job.dependency == nil or job.dependency == "")
		and (job.req_nodes == nil or job.req_nodes == "")
		and job.priority ~= 0
		and not pal.shares(job) -- the first of two on one GPU has to start as pald asks
end

-- Whether jobs of this user and application are over too soon to gain by a lease: `brief UID APP`.
local function is_brief(job, said)
	local app = (" " .. (job.comment or "")):match(" app:([^ ]*)")
	local uid = job.user_id
	return type(uid) == "number" and uid >= 0 and uid < 4294967294 and (app == nil or pal.is_app(app))
		and said:find(("\nbrief %.0f %s\n"):format(uid, app or "-"), 1, true) ~= nil
end

-- Never past a job that is leased: not before a snapshot that was taken after the last lease says that nobody waits.
local function passes(job, said, now)
	local what, taken, till = said:match("\npass (%a+) (%d+) (%d+)\n")
	taken, till = tonumber(taken), tonumber(till)
	if not (taken and till) or now > till or now < taken or taken < last_lease + SETTLED then
		return false
	end
	return is_plain(job) and is_on_one_node(job) and (what == "all" or (what == "brief" and is_brief(job, said)))
end

local last_leader = { uid = -1, lease_end = 0 } -- of the last heterogeneous job seen

-- All components of a heterogeneous job share the leader's lease, though the clock may tick between them.
local function lease_end_of(job, length, now)
	local offset = job.het_job_offset
	local is_component = type(offset) == "number" and offset > 0 and offset < 4294967294
	if is_component and last_leader.uid == job.user_id and math.abs(last_leader.lease_end - now - length) <= 5 then
		return last_leader.lease_end
	end
	last_leader = { uid = job.user_id, lease_end = now + length }
	return last_leader.lease_end
end

local function wake(s)
	-- "r+" never creates a file and never waits for a pipe's reader; seeking fails on a pipe.
	local file = s.wake_file and io.open(s.wake_file, "r+")
	if file then
		local size = file:seek("end")
		if size and size < MOST_RINGS or size and file:seek("set") then -- a change of its time is as good as a byte more
			file:write(".")
		end
		file:close()
	end
end

-- The three steps ---------------------------------------------------------------------------------------------------

local function say(job, set, comment, option)
	if #comment <= LONGEST_TEXT then
		set("comment", comment)
	else
		slurm.log_user("%s", "pal: the comment leaves no room for --" .. option .. "; the job goes on without it")
	end
end

local function tag(job, set)
	local app = spank_word(job, OPTION)
	if app and pal.is_app(app) then
		say(job, set, pal.tagged(job.comment, app), "pal-app")
	end
	local move = spank_word(job, MOVE_OPTION)
	move = move == "(null)" and "" or move
	if move and (move == "" or pal.is_move(move)) then
		say(job, set, pal.with_move(job.comment, move), "pal-move")
	end
	for option, flag in pairs(FLAGS) do
		if spank_word(job, flag[1]) then
			say(job, set, with_word(job.comment, flag[2], function(w) return w == flag[2] end), option)
		end
	end
end

local function fix_environment(job, models, set_environment)
	if not job.script then
		return -- only batch jobs bring their environment here
	end
	for _, name in ipairs({ "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET" }) do
		local value = job.environment[name]
		local plain = value and pal.without_model("gpu:" .. value, models)
		if plain then
			set_environment(name, plain:sub(5))
		end
	end
	for _, name in ipairs({ "SLURM_TRES_PER_TASK", "SLURM_GRES" }) do
		local plain = pal.without_model(job.environment[name], models)
		if plain then
			set_environment(name, plain)
		end
	end
end

-- Users never see slots: gpu:a100:2 becomes gpu:2 on nodes with feature a100.
local function drop_models(job, s, set, set_environment)
	local plain, model = {}, nil
	for _, field in ipairs(TRES_FIELDS) do
		local tres, found = pal.without_model(job[field], s.models)
		if tres then
			if model and model ~= found then
				return
			end
			plain[field], model = tres, found
		end
	end
	local features = model and pal.with_feature(job.features, model)
	if not features then
		return
	end
	for field, tres in pairs(plain) do
		set(field, tres)
	end
	set("features", features)
	fix_environment(job, s.models, set_environment)
end

local function lease(job, s, set)
	local now = os.time()
	local gpus = false
	for _, field in ipairs(TRES_FIELDS) do
		gpus = gpus or pal.wants_gpus(job[field])
	end
	local said = gpus and sign_of_life(s, now)
	if not said or exempt(job, s, said) then
		return
	end
	-- A begin time that has passed asks for nothing. One that is soon is no way round the queue: the lease covers it.
	local own = job.begin_time
	own = type(own) == "number" and own > now and own or nil -- 0: not set; no other number means that
	if own and own > LATEST then
		return
	end
	local pass = not own and passes(job, said, now)
	local lease_end = pass and now or lease_end_of(job, length_of(s, said), now)
	if own and own > lease_end then
		lease_end = own
	end
	local mark = pal.mark(job, lease_end, own, s.shards)
	if not mark then
		return
	end
	local words = { mark }
	if s.tell and not pass then
		words[#words + 1] = s.tell
	end
	if job.admin_comment and job.admin_comment ~= "" then
		words[#words + 1] = job.admin_comment
	end
	set("admin_comment", table.concat(words, " "))
	set("begin_time", lease_end)
	if not pass then
		last_lease = now
		wake(s)
	end
end

-- Why a request can't be had; nil where it can. `pald_s`: it asks for shards, and those are pald's to give.
function pal.refusal(job, pald_s)
	local leaks = pal.two_shared_types(job)
	if leaks then
		return ("pal: %s of two GPU types in one job: Slurm would not give them back; ask for one type, or for none"):format(leaks)
	end
	if pald_s then
		return "pal: shards are given out by pal-slurm here: ask for a whole GPU (--gres=gpu:1), and say pal:share in the"
			.. " comment (--comment=pal:share) if the job may share it"
	end
	return nil
end

-- A part that pald asked for is of a GPU of one node, and beside somebody: on another node the same part is a stranger's.
local function goes_elsewhere(job, record)
	local moved = job.req_nodes ~= nil or given(job.min_nodes) ~= nil or given(job.max_nodes) ~= nil
	return moved and pal.wants_shards(record)
end

-- An admin's own AdminComment stands behind the mark of a job that waits, as at its submission: without the mark nobody
-- would know that its begin time is a lease. What runs has none.
local function keep_mark(job, record)
	local text, stood = job.admin_comment, record.admin_comment
	local state = record.job_state
	if type(text) ~= "string" or type(stood) ~= "string" or type(state) ~= "number" or state % 256 ~= 0 then
		return -- 0: it waits; what stands beyond are flags
	end
	local mark = stood:match("^pal1{[^}]*}")
	if mark and text:sub(1, 2) ~= "+=" and text:sub(1, 5) ~= "pal1{" and #mark + #text < LONGEST_TEXT then
		job.admin_comment = text == "" and mark or mark .. " " .. text
	end
end

-- An edit: what it says, and of the rest what the job had. Who owns the job asks; pald and admins edit what they like.
local function refused_edit(job, record, partitions, uid)
	local s = current_settings()
	local own = uid ~= 0 and uid == record.user_id
	local asks = own and s and s.enabled and s.shards == "pald"
	if asks and goes_elsewhere(job, record)
		and managed({ partition = job.partition or record.partition }, s, partitions) then
		return "pal: this job is about to start on a part of a GPU, so its nodes can't be changed now; hold it first"
			.. " (scontrol hold): pal-slurm gives it its whole GPU back within seconds, then change and release it"
	end
	local touched = false
	for _, field in ipairs(TRES_FIELDS) do
		touched = touched or (job[field] or "") ~= ""
	end
	if not (s and s.enabled and touched) then
		return nil
	end
	local whole = {}
	for _, field in ipairs(TRES_FIELDS) do
		whole[field] = job[field] or record[field]
	end
	return pal.refusal(whole, asks and pal.wants_shards(job)
		and managed({ partition = job.partition or record.partition }, s, partitions))
end

local function modify(job, record, partitions, uid)
	local no = refused_edit(job, record, partitions, uid)
	if not no then
		keep_mark(job, record)
	end
	return no
end

local function submit(job, partitions, set, set_environment)
	local s = current_settings()
	if not s or not s.enabled then
		return
	end
	local no = pal.refusal(job, pal.wants_shards(job) and s.shards == "pald" and managed(job, s, partitions))
	if no then
		return no
	end
	tag(job, set)
	if managed(job, s, partitions) then
		if s.slots then
			drop_models(job, s, set, set_environment)
		end
		lease(job, s, set)
	end
	return nil
end

-- Slurm's callbacks -------------------------------------------------------------------------------------------------

-- Only a refusal in words stops anybody; after a fault of ours everything goes its way, and the log says so.
local function answer(fine, said, after_fault)
	if bulky then
		bulky = false
		collectgarbage()
	end
	if fine and said then
		slurm.log_user("%s", said)
		return slurm.ERROR
	end
	if not fine then
		after_fault(type(said) == "table" and tostring(said[1]) or tostring(said))
	end
	return slurm.SUCCESS
end

function slurm_job_submit(request, partitions, submit_uid)
	local undo = {}
	local job = sized(request)
	local function set(field, value)
		local old = job[field]
		undo[#undo + 1] = function() job[field] = old or "" end -- "" clears a text
		job[field] = value
	end
	local function set_environment(name, value)
		local old = job.environment[name]
		undo[#undo + 1] = function() job.environment[name] = old end
		job.environment[name] = value
	end
	local fine, said = pcall(submit, job, partitions, set, set_environment)
	return answer(fine, said, function(fault)
		for i = #undo, 1, -1 do
			pcall(undo[i])
		end
		pcall(log, "a job is left alone: " .. fault)
	end)
end

-- A user's own later edits win (promise P2), and AdminComment is closed to users: only what hurts others is refused.
function slurm_job_modify(job, record, partitions, modify_uid)
	local fine, said = pcall(modify, sized(job), sized(record), partitions, modify_uid)
	return answer(fine, said, function(fault) pcall(log, "an edit is let through: " .. fault) end)
end

return slurm.SUCCESS
