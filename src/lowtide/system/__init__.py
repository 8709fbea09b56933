"""What Lowtide takes from the machine: the clock, the disk, the identity of a process, optional packages."""
