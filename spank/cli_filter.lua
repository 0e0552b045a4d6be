--[[ cli_filter.lua: GPU models as node features already in sbatch, salloc and srun, where devices are named by slot; and
steps that ask for the one GPU of a job that has a part of it.

In: the options of one command, pal_lua.conf. Out: the same options with gpu:a100:2 as gpu:2 and the constraint a100; where
shards are pald's, an srun for a job with a part of a GPU asks for that part (docs/sharing.md): in the job's own scripts
where it says --gres=gpu:1 or the like, from outside (srun --jobid) always. job_submit.lua does the same for what reaches slurmctld, but it can't change the step that an `srun --gpus=a100:2` asks for
afterwards, nor what salloc writes into the environment of its shell. This file can; it is not needed elsewhere.
It takes the words from job_submit.lua, which must lie beside it with pal_lua.conf. Without them, and after any error, the
options are as the user gave them. A client's filter can be got round, so nothing is enforced here. ]]

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local loaded = pcall(dofile, here .. "job_submit.lua")

-- option -> what stands before its value to make it an item of a TRES list
local OPTIONS = {
	gres = "",
	gpus = "gpu:",
	["gpus-per-node"] = "gpu:",
	["gpus-per-task"] = "gpu:",
	["gpus-per-socket"] = "gpu:",
	["tres-per-task"] = "",
}

local function applies(settings, partition)
	if not settings or not settings.enabled or not settings.slots then
		return false
	end
	if next(settings.partitions) == nil or partition == nil or partition == "" then
		return true -- the default partition's name isn't known here
	end
	for name in partition:gmatch("[^,]+") do
		if settings.partitions[name] then
			return true
		end
	end
	return false
end

-- How many parts of a GPU the job has that this srun is for; nil: none, or nobody tells.
local function parts_of(options)
	local own, wanted = os.getenv("SLURM_JOB_ID"), options.jobid
	if type(wanted) ~= "string" or not wanted:match("^%d+[_+]?%d*$") then
		wanted = own
	end
	if wanted == own then -- in a script, as the task prolog left it
		return own and os.getenv("PAL_SHARDS_OF") == own and (os.getenv("SLURM_GRES") or ""):match("^shard:(%d+)$") or nil
	end
	local answer = io.popen("scontrol -o show job " .. wanted .. " 2>/dev/null")
	local record = answer and answer:read("*a") or ""
	if answer then
		answer:close()
	end
	return record:match(" TresPerNode=gres[:/]shard:[^:,%s]+:(%d+)%s")
end

-- What asks for one GPU of any model asks for the part; what asks for anything else is Slurm's to refuse.
local function ask_for_parts(options, set, settings)
	local parts = options.type == "srun" and settings and settings.enabled and settings.shards == "pald" and parts_of(options)
	if not parts then
		return
	end
	local asked = {}
	for option, before in pairs(OPTIONS) do
		local value = options[option]
		local item = value and (before .. value):gsub("^gres[:/]", "")
		if item and value ~= "" and not item:match("^shard") then
			local per_task = option:match("per%-task$") and options.ntasks ~= "1"
			if per_task or not (item == "gpu" or item == "gpu:1" or item == "gpu=1") then
				return
			end
			asked[#asked + 1] = option
		end
	end
	for _, option in ipairs(asked) do
		set(option, "")
	end
	if ((options["gpu-bind"] or "") .. (options["tres-bind"] or "")) ~= "" then
		set("tres-bind", "gres/shard:none") -- where GPUs are bound, tasks with a part of one see none (26.05)
	end
	set("gres", "shard:" .. parts)
end

local function translate(options, set)
	local text = pal.read_file(here .. "pal_lua.conf")
	local settings = text and pal.parse_settings(text)
	ask_for_parts(options, set, settings)
	if not applies(settings, options.partition) then
		return
	end
	local plain, model = {}, nil
	for option, before in pairs(OPTIONS) do
		local value = options[option]
		local tres, found = pal.without_model(value and before .. value, settings.models)
		if tres then
			if model and model ~= found then
				return
			end
			plain[option], model = tres:sub(#before + 1), found
		end
	end
	if not model then
		return
	end
	local is_step = options.type == "srun" and os.getenv("SLURM_JOB_ID") ~= nil
	if not is_step then
		local constraint = pal.with_feature(options.constraint, model)
		if not constraint then
			return
		end
		set("constraint", constraint)
	end
	for option, value in pairs(plain) do
		set(option, value)
	end
end

function slurm_cli_setup_defaults(options, early)
	return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
	local undo = {}
	local function set(option, value)
		undo[option] = options[option] or ""
		options[option] = value
	end
	if loaded and not pcall(translate, options, set) then
		for option, value in pairs(undo) do
			pcall(function() options[option] = value end)
		end
	end
	return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
	return slurm.SUCCESS
end

return slurm.SUCCESS
