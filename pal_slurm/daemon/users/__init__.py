"""Users' own questions. In: what is asked at a socket, and who the kernel says asks. Out: answers."""
