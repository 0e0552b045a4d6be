--[[ cli_filter.lua: GPU models as node features already in sbatch, salloc and srun, where devices are named by slot.

In: the options of one command, pal_lua.conf. Out: the same options with gpu:a100:2 as gpu:2 and the constraint a100.
job_submit.lua does the same for what reaches slurmctld, but it can't change the step that an `srun --gpus=a100:2` asks for
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

local function translate(options, set)
	local text = pal.read_file(here .. "pal_lua.conf")
	local settings = text and pal.parse_settings(text)
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
