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

    def update_fields(self, dict texts, dict numbers):
        """One slurm_update_job with these fields and no others; an empty text clears its field."""
        cdef:
            JobSubmitDescription changes = JobSubmitDescription()
            slurm.job_desc_msg_t *desc = NULL
            char **field = NULL
            bytes raw

        changes._alloc_and_init()
        desc = changes.ptr
        desc.step_id.job_id = self.id
        for name, text in texts.items():
            if name == "nodes":
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
            elif name == "features":
                field = &desc.features
            elif name == "comment":
                field = &desc.comment
            elif name == "admin_comment":
                field = &desc.admin_comment
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
        verify_rpc(slurm_update_job(desc))

