--[[ How long job_submit.lua holds slurmctld per submission. From the project's root: lua5.1 benchmarks/job_submit.lua
One tagged GPU job with a model to translate and a lease to give; settings, alive_file and wake_file are real files. ]]

slurm = { SUCCESS = 0, log_info = print, log_user = print }

local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir .. " && cp spank/job_submit.lua " .. dir))

local function write(name, text)
	local file = assert(io.open(dir .. "/" .. name, "w"))
	file:write(text)
	file:close()
end

write("pal_lua.conf", ("partitions = gpu\nslots = yes\nmodels = a100\nalive_file = %s/alive\nwake_file = %s/wake\n"):format(dir, dir))
write("alive", tostring(os.time()))
write("wake", "")
dofile(dir .. "/job_submit.lua")

local rounds = 20000
local begun = os.clock()
for _ = 1, rounds do
	local job = {
		begin_time = 0, partition = "gpu", tres_per_node = "gres/gpu:a100:2", comment = "hello",
		script = "#!/bin/sh\n#SBATCH -n1\necho\n", environment = { SLURM_GPUS_PER_NODE = "a100:2" },
		spank_job_env_size = 1, spank_job_env = { [0] = "_SLURM_SPANK_OPTION_pal_pal_app=resnet" },
	}
	slurm_job_submit(job, {}, 0)
	assert(job.admin_comment and job.comment == "hello app:resnet" and job.features == "a100")
end
print(("%s: %.1f us per submission"):format(_VERSION, (os.clock() - begun) / rounds * 1e6))
os.execute("rm -r " .. dir)
