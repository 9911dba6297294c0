package scarcity

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rungci/rung/internal/cgroup"
)

// cgroups is where control groups are. A container sees its own group as the root of them.
const cgroups = "/sys/fs/cgroup"

// known is the file of this process' group, once it was found. It is asked for every process that is run.
var known atomic.Pointer[string]

func kills() int64 {
	if file := known.Load(); file != nil {
		if n, ok := counter(*file, killed); ok {
			return n
		}
	}
	n, file := find()
	known.Store(file)
	return n
}

// killed is the counter's name.
const killed = "oom_kill"

// oomControl is the file of version 1 that has it.
const oomControl = "memory.oom_control"

// find looks for the counter; the file is nil where there is none.
func find() (int64, *string) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) != 3 {
			continue
		}
		root, name := "", ""
		switch fields[1] {
		case "":
			root, name = cgroups, "memory.events"
		case "memory":
			root, name = filepath.Join(cgroups, "memory"), oomControl
		default:
			continue
		}
		for _, dir := range []string{filepath.Join(root, fields[2]), root} {
			file := filepath.Join(dir, name)
			if n, ok := counter(file, killed); ok {
				return n, &file
			}
		}
	}
	return 0, nil
}

// counter reads the line "NAME NUMBER" of a file.
func counter(file, name string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func memoryUsed() string {
	file := known.Load()
	if file == nil {
		return ""
	}
	controller := "" // of the one hierarchy of version 2
	if filepath.Base(*file) == oomControl {
		controller = "memory"
	}
	group := cgroup.Group{Dirs: map[string]string{controller: filepath.Dir(*file)}}
	return group.Usage().Words()
}
