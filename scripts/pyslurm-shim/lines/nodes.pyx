    def partition_rows(self):
        """[name, nodes, up, whole nodes] of each partition; Partitions.load asks for the whole configuration too."""
        cdef slurm.partition_info_t *part = NULL
        rows = []
        for i in range(self.part_info.record_count):
            part = &self.part_info.partition_array[i]
            rows.append([
                cstr.to_unicode(part.name),
                cstr.to_unicode(part.nodes) or "",
                part.state_up == slurm.PARTITION_UP,
                not (part.max_share & ~slurm.SHARED_FORCE),
            ])
        return rows

