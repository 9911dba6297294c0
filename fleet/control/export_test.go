package control

// Kill ends all that the fleet does, as the end of its process would.
func (f *Fleet) Kill() {
	f.mu.Lock()
	f.end()
	f.stop()
	f.mu.Unlock()
}

// ErrorsOf divides the error of a call among machines.
var ErrorsOf = errorsOf
