"""What palwork does beside keeping the pace of its GPUs: it saves, resumes, and answers signals, well or badly."""
