    # --- pal-slurm's lines begin: public fields, one job's records, and an update that can clear fields

    @property
    def gres_detail(self):
        return cstr.to_list_with_count(self.ptr.gres_detail_str, self.ptr.gres_detail_cnt)

    @property
    def tres_texts(self):
        return (cstr.to_unicode(self.ptr.tres_per_node), cstr.to_unicode(self.ptr.tres_per_job),
                cstr.to_unicode(self.ptr.tres_per_task), cstr.to_unicode(self.ptr.tres_per_socket),
                cstr.to_unicode(self.ptr.mem_per_tres), cstr.to_unicode(self.ptr.cpus_per_tres))

    @property
    def dependency_text(self):
        return cstr.to_unicode(self.ptr.dependency)

    @property
    def features_text(self):
        return cstr.to_unicode(self.ptr.features)

    @property
    def array_task(self):
        # array_task_id takes task 0 for none
        return None if self.ptr.array_task_id == slurm.NO_VAL else self.ptr.array_task_id

    @staticmethod
    def walk():
        """The queue, as one Job that stands for each record in turn and is good until the next one.

        Jobs.load makes six objects per record, which takes longer than the RPC.
        """
        cdef:
            job_info_msg_t *info = NULL
            Job job = Job.__new__(Job)
            uint32_t i

        verify_rpc(slurm_load_jobs(0, &info, slurm.SHOW_ALL | slurm.SHOW_DETAIL))
        try:
            for i in range(info.record_count):
                job.ptr = &info.job_array[i]
                yield job
        finally:
            job.ptr = NULL
            slurm_free_job_info_msg(info)

    @staticmethod
    def load_records(job_id):
        """All records of one job or array; Job.load gives the first, which may be another task's."""
        cdef:
            job_info_msg_t *info = NULL
            list found = []

        verify_rpc(slurm_load_job(&info, job_id, slurm.SHOW_DETAIL))
        try:
            for i in range(info.record_count):
                found.append(Job.from_ptr(&info.job_array[i]))
                memset(&info.job_array[i], 0, sizeof(slurm_job_info_t))
        finally:
            slurm_free_job_info_msg(info)
        return found

    @staticmethod
    def update_fields(target, dict texts, dict numbers):
        """One update of `12`, `12_3` or `12_[3-7]` with these fields and no others; an empty text clears its field.

        Returns (what, errno, words) for each record that refused; raises RPCError when none could be reached.
        """
        cdef:
            JobSubmitDescription changes = JobSubmitDescription()
            slurm.job_desc_msg_t *desc = NULL
            slurm.job_array_resp_msg_t *answer = NULL
            char **field = NULL
            bytes raw
            list refused = []

        changes._alloc_and_init()
        desc = changes.ptr
        for name, text in {"target": target, **texts}.items():
            if name == "target":
                field = &desc.job_id_str
            elif name == "nodes":
                field = &desc.req_nodes
            elif name == "tres_per_node":
                field = &desc.tres_per_node
            elif name == "tres_per_job":
                field = &desc.tres_per_job
            elif name == "tres_per_task":
                field = &desc.tres_per_task
            elif name == "tres_per_socket":
                field = &desc.tres_per_socket
            elif name == "partition":
                field = &desc.partition
            else:
                raise ValueError(f"no text field {name!r}")
            raw = text.encode("utf-8")
            xfree(field[0])
            field[0] = <char *>try_xmalloc(len(raw) + 1)
            if not field[0]:
                raise MemoryError("xmalloc failed")
            memcpy(field[0], <char *>raw, len(raw) + 1)
        for name, number in numbers.items():
            if name == "begin_time":
                desc.begin_time = number
            elif name == "min_nodes":
                desc.min_nodes = number
            elif name == "max_nodes":
                desc.max_nodes = number
            else:
                raise ValueError(f"no number field {name!r}")
        verify_rpc(slurm.slurm_update_job2(desc, &answer))
        if answer:
            for i in range(answer.job_array_count):
                if answer.error_code[i]:
                    words = cstr.to_unicode(answer.err_msg[i]) if answer.err_msg else None
                    words = words or cstr.to_unicode(slurm.slurm_strerror(answer.error_code[i]))
                    refused.append((cstr.to_unicode(answer.job_array_id[i]), answer.error_code[i], words))
            slurm.slurm_free_job_array_resp(answer)
        return refused

    # --- pal-slurm's lines end

