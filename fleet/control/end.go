package control

// DeleteOnClose lets Close end all machines that have no jobs, as DeleteOnShutdown does.
func (f *Fleet) DeleteOnClose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.o.DeleteOnShutdown = true
}
