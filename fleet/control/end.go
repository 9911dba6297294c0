package control

// DeleteOnClose lets Close end all machines that have no jobs, as DeleteOnShutdown does.
func (f *Fleet) DeleteOnClose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.o.DeleteOnShutdown = true
}

// DeleteVolumesOnClose lets Close end all volumes as well, as nobody will come for them. It is for a fleet of which DeleteOnClose leaves no machine.
func (f *Fleet) DeleteVolumesOnClose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scale.EndVolumes()
	f.endVolumes = true
}
