// Package limits defines what the jobs of a run may use and reach: as the user says, and as the project's .rung/limits.yml narrows that.
//
//	cpus: 2
//	memory: 4GiB
//	pids: 500
//	disk: 20GiB
//	network: none
package limits

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// File is the file in .rung that narrows the limits of a project's jobs.
const File = "limits.yml"

const (
	// maxFile bounds the file, in bytes.
	maxFile = 64 << 10
	// MinMemory is the least memory that a job can be given, in bytes: its step-runner takes half of it.
	MinMemory = 64 << 20
	// MinPIDs is the least number of processes and threads that a job can be given: its step-runner has about 15.
	MinPIDs = 32
	// minCPUs is the least part of a processor that a kernel can give.
	minCPUs = 0.01
	// maxCPUs is more than any machine has.
	maxCPUs = 1 << 16
)

// Limits are what every job of a run may use and reach. The zero value does not limit.
type Limits struct {
	Resources executor.Resources
	Network   executor.NetworkPolicy
}

// Within returns the stricter of two limits, field by field.
func (l Limits) Within(other Limits) Limits {
	a, b := l.Resources, other.Resources
	return Limits{Resources: executor.Resources{
		CPU: stricter(a.CPU, b.CPU), Memory: stricter(a.Memory, b.Memory), PIDs: stricter(a.PIDs, b.PIDs), Disk: stricter(a.Disk, b.Disk),
	}, Network: both(l.Network, other.Network)}
}

// stricter returns the lower of two limits, of which 0 means none.
func stricter[T int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Set sets a limit by its name. The error says what is wrong with the text.
func (l *Limits) Set(name, text string) (err error) {
	r := &l.Resources
	switch name {
	case "cpus":
		r.CPU, err = cpus(text)
	case "memory":
		r.Memory, err = Size(text)
		if err == nil && r.Memory < MinMemory {
			err = fmt.Errorf("%s is too little for a job: the least is %dMiB", text, MinMemory>>20)
		}
	case "pids":
		r.PIDs, err = strconv.ParseInt(text, 10, 64)
		if err != nil || r.PIDs < MinPIDs {
			err = fmt.Errorf("%q is not a number of processes and threads from %d on", text, MinPIDs)
		}
	case "disk":
		r.Disk, err = Size(text)
	case "network":
		l.Network, err = network(text)
	default:
		err = fmt.Errorf("%q is not a limit", name)
	}
	return err
}

func cpus(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= minCPUs && n <= maxCPUs) {
		return 0, fmt.Errorf("%q is not a number of processors, such as 2 or 0.5", text)
	}
	return n, nil
}

func network(text string) (executor.NetworkPolicy, error) {
	policy, err := egress.Parse(text)
	if err != nil || policy.All() {
		return executor.NetworkDefault, err
	}
	return executor.NetworkPolicy(policy.String()), nil
}

// both is what two policies let through.
func both(a, b executor.NetworkPolicy) executor.NetworkPolicy {
	one, err := egress.Parse(string(a))
	other, otherErr := egress.Parse(string(b))
	switch {
	case a == executor.NetworkDefault:
		return b
	case b == executor.NetworkDefault:
		return a
	case err != nil || otherErr != nil: // no policy that Set has read
		return executor.NetworkNone
	}
	return executor.NetworkPolicy(one.And(other).String())
}

// units are those of sizes, as Docker reads them: all are powers of 1024.
var units = map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

// Size reads a number of bytes: 1073741824, 512m, 1.5g, 2GiB.
func Size(text string) (int64, error) {
	wrong := fmt.Errorf("%q is not a size, such as 512MiB or 2GiB", text)
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.ToLower(text[len(number):])
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	shift, known := units[unit]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !known || err != nil || !(n > 0) {
		return 0, wrong
	}
	bytes := n * float64(int64(1)<<shift)
	if bytes < 1 || bytes >= math.MaxInt64 {
		return 0, wrong
	}
	return int64(bytes), nil
}

// Read reads the file of a project, which nothing can lead out of the project's folder. One that does not exist limits nothing. What is
// wrong with it is a diag.List. file is its path below root, with slashes.
func Read(root, file string) (Limits, error) {
	data, err := read(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return Limits{}, nil
	}
	if err != nil {
		return Limits{}, fmt.Errorf("reading the project's limits: %w", err)
	}
	return Parse(file, data)
}

func read(root, file string) ([]byte, error) {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	info, err := folder.Lstat(file)
	var of *fs.PathError
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is not a folder; move it away, as files of the project and of its runs are kept in a folder of this name", path.Dir(file))
	case errors.As(err, &of) && !errors.Is(err, fs.ErrNotExist):
		return nil, &fs.PathError{Op: "opening", Path: file, Err: of.Err}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	f, err := folder.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d KiB", file, maxFile>>10)
	}
	return data, err
}

// keys are the keys of the file.
var keys = []string{"cpus", "memory", "pids", "disk", "network"}

// Parse reads the text of a file that diagnostics call name.
func Parse(name string, data []byte) (Limits, error) {
	var out Limits
	file, err := yamlsource.Parse(name, data)
	if err != nil {
		return out, err
	}
	for _, doc := range file.Documents {
		if doc.Kind == yamlsource.Null {
			continue
		}
		if doc.Kind != yamlsource.Mapping {
			file.Report(doc.Span, "write lines such as memory: 2GiB", "the file must be a map of limits, not %s", doc.Kind)
			continue
		}
		for _, e := range doc.Entries {
			out.entry(file, e)
		}
	}
	return out, file.Err()
}

func (l *Limits) entry(file *yamlsource.File, e yamlsource.Entry) {
	key := e.Key.Text
	switch {
	case key == "privileged":
		file.Report(e.Key.Span, "remove it; a user grants privileges with --privileged", "a project cannot give its jobs privileges")
	case !knows(key):
		hint := diag.Suggest(key, keys)
		if hint != "" {
			hint = fmt.Sprintf("did you mean %q?", hint)
		}
		file.Report(e.Key.Span, hint, "%q is not a limit; the limits are %s", key, strings.Join(keys, ", "))
	case !e.Value.Kind.IsScalar() || e.Value.Kind == yamlsource.Null:
		file.Report(e.Value.Span, "", "%s must be a number or text, not %s", key, e.Value.Kind)
	default:
		if err := l.Set(key, e.Value.Text); err != nil {
			file.Report(e.Value.Span, "", "%s: %v", key, err)
		}
	}
}

func knows(key string) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}
