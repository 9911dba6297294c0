package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The fields of /proc/self/stat, counted after the command's name, where the environment that the program was started with begins and
// ends in its memory.
const (
	statEnvStart = 47
	statEnvEnd   = 48
)

// Conceal keeps what this program knows from every other process of its user, those that it starts included: the environment that it was
// started with is overwritten where the system shows it (os.Getenv still knows it), so that root reads nothing there either, and nobody but
// root may attach to the program, or open its memory and descriptors. What whoever started the program has left open for it is not passed on to
// processes that it starts. Call it once, before the first process is started.
func Conceal() error {
	keepDescriptors()
	// First the environment: afterwards the program itself may not open its memory.
	return errors.Join(eraseEnvironment(), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// keepDescriptors lets this program alone have its open files, but for the standard streams.
func keepDescriptors() {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, name := range open {
		if n, err := strconv.Atoi(name.Name()); err == nil && n > 2 {
			unix.CloseOnExec(n)
		}
	}
}

func eraseEnvironment() error {
	start, end, err := environmentPlace()
	if err != nil || end <= start {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("overwriting the environment: %w", err)
	}
	defer memory.Close()
	if _, err := memory.WriteAt(make([]byte, end-start), start); err != nil {
		return fmt.Errorf("overwriting the environment: %w", err)
	}
	return nil
}

// environmentPlace returns where in memory the environment is that the program was started with.
func environmentPlace() (start, end int64, err error) {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= statEnvEnd {
		return 0, 0, errors.New("/proc/self/stat does not say where the environment is")
	}
	start, err = strconv.ParseInt(string(fields[statEnvStart]), 10, 64)
	if err != nil {
		return 0, 0, err
	}
	end, err = strconv.ParseInt(string(fields[statEnvEnd]), 10, 64)
	return start, end, err
}
